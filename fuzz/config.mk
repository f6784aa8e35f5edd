# Fuzz targets of src/config; the pattern is in fuzz/local.mk.
FUZZ_TARGETS += fuzz_tokens
fuzz_tokens_SOURCES = fuzz/fuzz_tokens.c
fuzz_tokens_LDADD = libconfig.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
