# Unit tests of src/compiler; the pattern is in tests/unit/local.mk.
