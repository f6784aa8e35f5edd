# Fuzz targets of src/policy; the pattern is in fuzz/local.mk.
