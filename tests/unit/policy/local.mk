# Unit tests of src/policy; the pattern is in tests/unit/local.mk.
