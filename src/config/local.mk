# src/config: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libconfig.a
libconfig_a_SOURCES =
