# src/proxy: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libproxy.a
libproxy_a_SOURCES =
