# src/policy: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libpolicy.a
libpolicy_a_SOURCES =
