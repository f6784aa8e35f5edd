# Unit tests of src/cli; the pattern is in tests/unit/local.mk.
