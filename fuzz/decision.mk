# Fuzz targets of src/decision; the pattern is in fuzz/local.mk.
