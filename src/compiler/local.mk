# src/compiler: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libcompiler.a
libcompiler_a_CPPFLAGS = $(AM_CPPFLAGS) $(PSL_CFLAGS) $(IDN2_CFLAGS)
libcompiler_a_SOURCES = \
	src/compiler/ast.h \
	src/compiler/compile.c src/compiler/compile.h src/compiler/compile_internal.h \
	src/compiler/emit.c src/compiler/emit.h src/compiler/emit_index.c src/compiler/emit_internal.h \
	src/compiler/emit_tables.c src/compiler/enforced.h \
	src/compiler/idna.c src/compiler/idna.h \
	src/compiler/library.c src/compiler/library.h \
	src/compiler/lint.c src/compiler/lint.def src/compiler/lint.h src/compiler/lint_internal.h \
	src/compiler/lint_rules.c \
	src/compiler/parse.c src/compiler/parse.h src/compiler/parse_doc.c src/compiler/parse_internal.h \
	src/compiler/parse_lease.c src/compiler/parser.c \
	src/compiler/pattern.c src/compiler/pattern.h \
	src/compiler/print_doc.c src/compiler/print_doc.h \
	src/compiler/root.c src/compiler/root.h src/compiler/root_file.c src/compiler/root_internal.h \
	src/compiler/root_order.c src/compiler/root_view.c \
	src/compiler/source.c src/compiler/source.h
EXTRA_DIST += src/compiler/README.md
