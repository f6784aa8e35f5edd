# Fuzz targets of src/lease; the pattern is in fuzz/local.mk.
