# Unit tests of src/document; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_document
TESTS += unit_document
unit_document_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
unit_document_SOURCES = \
	tests/unit/document/doc_fixture.c tests/unit/document/doc_fixture.h \
	tests/unit/document/test_beat_doc.c \
	tests/unit/document/test_envelope.c \
	tests/unit/document/test_json.c \
	tests/unit/document/test_keyset_doc.c \
	tests/unit/document/test_lease_doc.c \
	tests/unit/document/test_manifest_doc.c
unit_document_LDADD = libdocument.a libbase.a $(JANSSON_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
