# Unit tests of src/lease; the pattern is in tests/unit/local.mk.
