# Fuzz targets of src/compiler; the pattern is in fuzz/local.mk.
FUZZ_TARGETS += fuzz_pattern
fuzz_pattern_SOURCES = fuzz/fuzz_pattern.c
fuzz_pattern_LDADD = libcompiler.a libfacts.a libbase.a $(PSL_LIBS) $(IDN2_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
