# Fuzz targets of src/config; the pattern is in fuzz/local.mk.
