# src/judge: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libjudge.a
libjudge_a_SOURCES =
