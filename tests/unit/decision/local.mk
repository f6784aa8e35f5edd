# Unit tests of src/decision; the pattern is in tests/unit/local.mk.
