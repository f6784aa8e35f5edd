# src/decision: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libdecision.a
libdecision_a_SOURCES =
