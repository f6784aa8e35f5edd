# src/net: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libnet.a
libnet_a_CPPFLAGS = $(AM_CPPFLAGS) $(EVENT_CFLAGS) $(CARES_CFLAGS)
libnet_a_SOURCES = \
	src/net/address_watch.c src/net/address_watch.h \
	src/net/connector.c src/net/connector.h \
	src/net/listener.c src/net/listener.h \
	src/net/ares_link.c src/net/ares_link.h \
	src/net/loop.c src/net/loop.h \
	src/net/name_servers.c src/net/name_servers.h \
	src/net/open_socket.c src/net/open_socket.h \
	src/net/pins.c src/net/pins.h \
	src/net/pump.c src/net/pump.h \
	src/net/pump_copy.c src/net/pump_internal.h src/net/pump_splice.c \
	src/net/race.c src/net/race.h \
	src/net/relay.c src/net/relay.h \
	src/net/resolver.c src/net/resolver.h \
	src/net/sockopt.c src/net/sockopt.h
EXTRA_DIST += src/net/README.md
