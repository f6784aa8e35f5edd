# Unit tests of src/wire; the pattern is in tests/unit/local.mk.
