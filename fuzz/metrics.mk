# Fuzz targets of src/metrics; the pattern is in fuzz/local.mk.
