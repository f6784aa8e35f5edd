# Unit tests of src/facts; the pattern is in tests/unit/local.mk.
