# Unit tests of src/sandbox; the pattern is in tests/unit/local.mk.
