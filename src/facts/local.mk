# src/facts: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libfacts.a
libfacts_a_SOURCES =
