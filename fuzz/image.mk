# Fuzz targets of src/image; the pattern is in fuzz/local.mk.
