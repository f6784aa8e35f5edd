# Unit tests of src/sandbox; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_sandbox
TESTS += unit_sandbox
unit_sandbox_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit/sandbox $(CRITERION_CFLAGS)
unit_sandbox_SOURCES = \
	tests/unit/sandbox/attempt.c \
	tests/unit/sandbox/attempt.h \
	tests/unit/sandbox/test_sandbox.c \
	tests/unit/sandbox/test_sidecar.c
unit_sandbox_LDADD = libsandbox.a libbase.a $(CRYPTO_LIBS) $(SECCOMP_LIBS) $(CRITERION_LIBS)
endif
