# Unit tests of src/config; the pattern is in tests/unit/local.mk.
