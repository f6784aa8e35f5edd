# Fuzz targets of src/base; the pattern is in fuzz/local.mk.
FUZZ_TARGETS += fuzz_text_values
fuzz_text_values_SOURCES = fuzz/fuzz_text_values.c
fuzz_text_values_LDADD = libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
