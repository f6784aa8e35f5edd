# Unit tests of src/document; the pattern is in tests/unit/local.mk.
