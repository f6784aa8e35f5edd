# Fuzz targets of src/image; the pattern is in fuzz/local.mk. What opens is also matched, so the matcher is linked.
FUZZ_TARGETS += fuzz_segment
fuzz_segment_SOURCES = fuzz/fuzz_segment.c
fuzz_segment_LDADD = libpolicy.a libimage.a libdecision.a libfacts.a libbase.a $(MAXMINDDB_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
