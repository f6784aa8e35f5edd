# Fuzz targets of src/net; the pattern is in fuzz/local.mk.
