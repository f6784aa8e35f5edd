# Unit tests of src/judge; the pattern is in tests/unit/local.mk.
