# Fuzz targets of src/compiler; the pattern is in fuzz/local.mk.
