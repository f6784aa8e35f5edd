# src/proxy: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libproxy.a
libproxy_a_SOURCES = \
	src/proxy/bucket.h \
	src/proxy/dns_budget.c src/proxy/dns_budget.h \
	src/proxy/establish.c \
	src/proxy/handshake.c \
	src/proxy/lease_home.c src/proxy/lease_home.h \
	src/proxy/recent.c src/proxy/recent.h \
	src/proxy/limits.c src/proxy/limits.h \
	src/proxy/redirect.c src/proxy/redirect.h \
	src/proxy/session.c src/proxy/session.h \
	src/proxy/tunnel.c src/proxy/tunnel_http.c src/proxy/tunnel_internal.h src/proxy/tunnel_tls.c src/proxy/tunnel_words.c \
	src/proxy/worker.c src/proxy/worker.h src/proxy/worker_internal.h \
	src/proxy/worker_order.c \
	src/proxy/world.c src/proxy/world.h
EXTRA_DIST += src/proxy/README.md
