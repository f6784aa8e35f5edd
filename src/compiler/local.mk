# src/compiler: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libcompiler.a
libcompiler_a_CPPFLAGS = $(AM_CPPFLAGS) $(PSL_CFLAGS) $(IDN2_CFLAGS)
libcompiler_a_SOURCES = \
	src/compiler/ast.h \
	src/compiler/compile.h src/compiler/emit.h src/compiler/enforced.h \
	src/compiler/idna.c src/compiler/idna.h \
	src/compiler/lint.h src/compiler/parse.h \
	src/compiler/pattern.c src/compiler/pattern.h \
	src/compiler/root.h src/compiler/source.h
EXTRA_DIST += src/compiler/README.md
