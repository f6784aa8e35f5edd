# Unit tests of src/daemon; the pattern is in tests/unit/local.mk.
