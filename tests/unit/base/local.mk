# Unit tests of src/base; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_base
TESTS += unit_base
unit_base_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
unit_base_SOURCES = \
	tests/unit/base/test_hash.c
unit_base_LDADD = libbase.a $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
