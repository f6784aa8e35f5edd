# src/document: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libdocument.a
libdocument_a_SOURCES =
