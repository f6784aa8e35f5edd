# Fuzz targets of src/control; the pattern is in fuzz/local.mk.
FUZZ_TARGETS += fuzz_record_ring
fuzz_record_ring_SOURCES = fuzz/fuzz_record_ring.c
fuzz_record_ring_LDADD = libcontrol.a libdecision.a libfacts.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
