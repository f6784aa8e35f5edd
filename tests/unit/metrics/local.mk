# Unit tests of src/metrics; the pattern is in tests/unit/local.mk.
