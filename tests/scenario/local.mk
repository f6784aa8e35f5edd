# Scenarios: scripted time (tests/fake/loop_fake.c instead of libnet's loop) and a scripted network; one program per
# x.scn, which also says at its top what its lines mean.
EXTRA_DIST += tests/scenario/README.md tests/scenario/dns.scn
if HAVE_CRITERION
check_PROGRAMS += scenario_dns
TESTS += scenario_dns
scenario_dns_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) $(CRITERION_CFLAGS)
scenario_dns_SOURCES = \
	tests/fake/dns_message.c tests/fake/dns_message.h \
	tests/fake/dns_net.c tests/fake/dns_net.h \
	tests/fake/loop_fake.c tests/fake/loop_fake.h \
	tests/scenario/scenario_dns.c
scenario_dns_LDADD = libnet.a libmetrics.a libwire.a libdecision.a libbase.a \
	$(CARES_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
