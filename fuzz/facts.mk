# Fuzz targets of src/facts; the pattern is in fuzz/local.mk.
FUZZ_TARGETS += fuzz_target
fuzz_target_SOURCES = fuzz/fuzz_target.c
fuzz_target_LDADD = libfacts.a libbase.a $(MAXMINDDB_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
