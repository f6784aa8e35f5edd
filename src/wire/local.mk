# src/wire: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libwire.a
libwire_a_SOURCES =
