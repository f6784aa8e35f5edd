# Fuzz targets of src/proxy; the pattern is in fuzz/local.mk.
