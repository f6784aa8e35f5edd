# Unit tests of src/compiler; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_compiler
TESTS += unit_compiler
unit_compiler_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) $(CRITERION_CFLAGS)
unit_compiler_SOURCES = \
	tests/unit/compiler/segments.h \
	tests/unit/compiler/test_compile.c \
	tests/unit/compiler/test_emit.c \
	tests/unit/compiler/test_emit_index.c \
	tests/unit/compiler/test_emit_tables.c \
	tests/unit/compiler/test_idna.c \
	tests/unit/compiler/test_library.c \
	tests/unit/compiler/test_lint.c \
	tests/unit/compiler/test_lint_rules.c \
	tests/unit/compiler/test_parse.c \
	tests/unit/compiler/test_parse_doc.c \
	tests/unit/compiler/test_parse_lease.c \
	tests/unit/compiler/test_parser.c \
	tests/unit/compiler/texts.h \
	tests/unit/compiler/test_pattern.c \
	tests/unit/compiler/test_print_doc.c \
	tests/unit/compiler/test_root.c \
	tests/unit/compiler/test_source.c \
	tests/unit/compiler/tree.h
unit_compiler_LDADD = libcompiler.a libimage.a libdocument.a libconfig.a libdecision.a libfacts.a libbase.a \
	$(PSL_LIBS) $(IDN2_LIBS) $(JANSSON_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
