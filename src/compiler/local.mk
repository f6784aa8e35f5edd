# src/compiler: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libcompiler.a
libcompiler_a_SOURCES =
