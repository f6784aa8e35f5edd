# Fuzz targets of src/decision; the pattern is in fuzz/local.mk.
FUZZ_TARGETS += fuzz_record_json
fuzz_record_json_SOURCES = fuzz/fuzz_record_json.c
fuzz_record_json_LDADD = libdecision.a libfacts.a libbase.a $(MAXMINDDB_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
