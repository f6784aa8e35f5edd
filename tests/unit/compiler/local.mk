# Unit tests of src/compiler; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_compiler
TESTS += unit_compiler
unit_compiler_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) $(CRITERION_CFLAGS)
unit_compiler_SOURCES = \
	tests/unit/compiler/test_idna.c \
	tests/unit/compiler/test_pattern.c \
	tests/unit/compiler/test_root.c \
	tests/unit/compiler/tree.h
unit_compiler_LDADD = libcompiler.a libimage.a libdocument.a libconfig.a libdecision.a libfacts.a libbase.a \
	$(PSL_LIBS) $(IDN2_LIBS) $(JANSSON_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
