# src/net: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libnet.a
libnet_a_SOURCES =
