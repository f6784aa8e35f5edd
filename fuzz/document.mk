# Fuzz targets of src/document; the pattern is in fuzz/local.mk.
FUZZ_TARGETS += fuzz_beat_doc fuzz_envelope fuzz_keyset_doc fuzz_lease_doc fuzz_manifest_doc
fuzz_beat_doc_SOURCES = fuzz/fuzz_beat_doc.c
fuzz_beat_doc_LDADD = libdocument.a libbase.a $(JANSSON_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_envelope_SOURCES = fuzz/fuzz_envelope.c
fuzz_envelope_LDADD = libdocument.a libbase.a $(JANSSON_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_keyset_doc_SOURCES = fuzz/fuzz_keyset_doc.c
fuzz_keyset_doc_LDADD = libdocument.a libbase.a $(JANSSON_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_lease_doc_SOURCES = fuzz/fuzz_lease_doc.c
fuzz_lease_doc_LDADD = libdocument.a libbase.a $(JANSSON_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_manifest_doc_SOURCES = fuzz/fuzz_manifest_doc.c
fuzz_manifest_doc_LDADD = libdocument.a libbase.a $(JANSSON_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
