# src/lease: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += liblease.a
liblease_a_SOURCES =
