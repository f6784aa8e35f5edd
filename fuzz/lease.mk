# Fuzz targets of src/lease; the pattern is in fuzz/local.mk.
FUZZ_TARGETS += fuzz_lease_token
fuzz_lease_token_SOURCES = fuzz/fuzz_lease_token.c
fuzz_lease_token_LDADD = liblease.a libimage.a libdecision.a libfacts.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
