# Fuzz targets of src/document; the pattern is in fuzz/local.mk.
