# Fuzz targets of src/facts; the pattern is in fuzz/local.mk.
