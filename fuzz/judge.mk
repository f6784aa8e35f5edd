# Fuzz targets of src/judge; the pattern is in fuzz/local.mk.
