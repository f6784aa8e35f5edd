# Unit tests of src/net; the pattern is in tests/unit/local.mk.
