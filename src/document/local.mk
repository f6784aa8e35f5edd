# src/document: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libdocument.a
libdocument_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
libdocument_a_SOURCES = \
	src/document/json.c src/document/json.h \
	src/document/lease_doc.c src/document/lease_doc.h src/document/limits.def
EXTRA_DIST += src/document/README.md
