# Fuzz targets of src/document; the pattern is in fuzz/local.mk.
FUZZ_TARGETS += fuzz_lease_doc
fuzz_lease_doc_SOURCES = fuzz/fuzz_lease_doc.c
fuzz_lease_doc_LDADD = libdocument.a libbase.a $(JANSSON_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
