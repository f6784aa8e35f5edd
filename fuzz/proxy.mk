# Fuzz targets of src/proxy; the pattern is in fuzz/local.mk.
# A whole worker over fakes; the lists are in tests/scenario/local.mk.
FUZZ_TARGETS += fuzz_session
fuzz_session_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
fuzz_session_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=connect -Wl,--wrap=crypto_random
fuzz_session_SOURCES = fuzz/fuzz_session.c $(fake_proxy_sources)
fuzz_session_LDADD = $(fake_proxy_libs) $(FUZZ_LIBS)

FUZZ_TARGETS += fuzz_tunnel
fuzz_tunnel_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
fuzz_tunnel_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=connect
fuzz_tunnel_SOURCES = fuzz/fuzz_tunnel.c $(fake_proxy_sources)
fuzz_tunnel_LDADD = $(fake_proxy_libs) $(FUZZ_LIBS)
