# Unit tests of src/net; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_net
TESTS += unit_net
unit_net_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) $(CRITERION_CFLAGS)
unit_net_SOURCES = \
	tests/fake/dns_message.c tests/fake/dns_message.h \
	tests/unit/net/dns_server.c tests/unit/net/dns_server.h \
	tests/unit/net/fixture.c tests/unit/net/fixture.h \
	tests/unit/net/relay_rig.c tests/unit/net/relay_rig.h \
	tests/unit/net/test_address_watch.c \
	tests/unit/net/test_connector.c \
	tests/unit/net/test_listener.c \
	tests/unit/net/test_ares_link.c \
	tests/unit/net/test_loop.c \
	tests/unit/net/test_name_servers.c \
	tests/unit/net/test_open_socket.c \
	tests/unit/net/test_pins.c \
	tests/unit/net/test_pump.c \
	tests/unit/net/test_race.c \
	tests/unit/net/test_relay.c \
	tests/unit/net/test_relay_filter.c \
	tests/unit/net/test_resolver.c \
	tests/unit/net/test_sockopt.c
unit_net_LDADD = libnet.a libmetrics.a libwire.a libfacts.a libdecision.a libbase.a \
	$(EVENT_LIBS) $(CARES_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
