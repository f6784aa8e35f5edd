# Unit tests of src/proxy; the pattern is in tests/unit/local.mk.
