# Unit tests of src/config; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_config
TESTS += unit_config
unit_config_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
unit_config_SOURCES = \
	tests/unit/config/test_check.c \
	tests/unit/config/test_fault.c \
	tests/unit/config/test_load.c \
	tests/unit/config/test_option.c \
	tests/unit/config/test_tokens.c
unit_config_LDADD = libconfig.a libbase.a $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
