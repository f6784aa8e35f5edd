# Fuzz targets of src/net; the pattern is in fuzz/local.mk.
FUZZ_TARGETS += fuzz_resolver
fuzz_resolver_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
fuzz_resolver_SOURCES = fuzz/fuzz_resolver.c \
	tests/fake/dns_message.c tests/fake/dns_net.c tests/fake/loop_fake.c
fuzz_resolver_LDADD = libnet.a libmetrics.a libwire.a libdecision.a libbase.a $(CARES_LIBS) $(FUZZ_LIBS)
FUZZ_TARGETS += fuzz_relay
fuzz_relay_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
fuzz_relay_SOURCES = fuzz/fuzz_relay.c tests/fake/loop_fake.c tests/fake/loop_fake.h
fuzz_relay_LDADD = libnet.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
