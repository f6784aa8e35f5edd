# src/base: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libbase.a
libbase_a_SOURCES =
