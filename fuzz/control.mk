# Fuzz targets of src/control; the pattern is in fuzz/local.mk.
