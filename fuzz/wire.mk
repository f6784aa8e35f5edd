# Fuzz targets of src/wire; the pattern is in fuzz/local.mk.
