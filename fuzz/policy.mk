# Fuzz targets of src/policy; the pattern is in fuzz/local.mk.
FUZZ_TARGETS += fuzz_match
fuzz_match_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit/image
fuzz_match_SOURCES = fuzz/fuzz_match.c tests/unit/image/segment_builder.c tests/unit/image/segment_builder.h
fuzz_match_LDADD = libpolicy.a libimage.a libdecision.a libfacts.a libbase.a $(MAXMINDDB_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
