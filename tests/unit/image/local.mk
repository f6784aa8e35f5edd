# Unit tests of src/image; the pattern is in tests/unit/local.mk.
