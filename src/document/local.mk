# src/document: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libdocument.a
libdocument_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
libdocument_a_SOURCES = \
	src/document/beat_doc.c src/document/beat_doc.h \
	src/document/doc_read.c src/document/doc_read_internal.h \
	src/document/envelope.c src/document/envelope.h \
	src/document/json.c src/document/json.h \
	src/document/keyset_doc.c src/document/keyset_doc.h \
	src/document/lease_doc.c src/document/lease_doc.h src/document/limits.def \
	src/document/manifest_doc.c src/document/manifest_doc.h
EXTRA_DIST += src/document/README.md
