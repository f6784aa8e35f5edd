# Unit tests of src/control; the pattern is in tests/unit/local.mk.
