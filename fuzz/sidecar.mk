# Fuzz targets of src/sidecar; the pattern is in fuzz/local.mk.
