# Unit tests of src/lease; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_lease
TESTS += unit_lease
unit_lease_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS) -I$(top_srcdir)/tests/unit/image
unit_lease_SOURCES = \
	tests/unit/image/segment_builder.c tests/unit/image/segment_builder.h \
	tests/unit/lease/test_gate.c \
	tests/unit/lease/test_lease_follow.c \
	tests/unit/lease/test_lease_table.c \
	tests/unit/lease/test_lease_token.c \
	tests/unit/lease/test_ways.c
unit_lease_LDADD = liblease.a libimage.a libdecision.a libfacts.a libbase.a $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
