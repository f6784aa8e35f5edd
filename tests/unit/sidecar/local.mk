# Unit tests of src/sidecar; the pattern is in tests/unit/local.mk.
