# Fuzz targets of src/compiler; the pattern is in fuzz/local.mk.
FUZZ_TARGETS += fuzz_pattern
fuzz_pattern_SOURCES = fuzz/fuzz_pattern.c
fuzz_pattern_LDADD = libcompiler.a libfacts.a libbase.a $(PSL_LIBS) $(IDN2_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
FUZZ_TARGETS += fuzz_compile
fuzz_compile_SOURCES = fuzz/fuzz_compile.c
fuzz_compile_LDADD = libcompiler.a libimage.a libdocument.a libconfig.a libdecision.a libfacts.a libbase.a $(PSL_LIBS) $(IDN2_LIBS) \
	$(JANSSON_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
