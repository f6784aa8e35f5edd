# Scenarios: scripted time (tests/fake/loop_fake.c instead of libnet's loop) and a scripted network; one program per
# x.scn, which also says at its top what its lines mean.
EXTRA_DIST += tests/scenario/README.md tests/scenario/dns.scn tests/scenario/session.scn
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
check_PROGRAMS += scenario_session
TESTS += scenario_session
scenario_session_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) $(CRITERION_CFLAGS)
# The connector's connect(2) goes to tests/fake/socket_fake.c.
scenario_session_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=connect
scenario_session_SOURCES = \
	$(fake_proxy_sources) \
	tests/scenario/scenario_session.c
scenario_session_LDADD = $(fake_proxy_libs) $(CRITERION_LIBS)
endif
# A whole worker over fakes, also for fuzz/proxy.mk.
fake_proxy_sources = \
	tests/fake/dns_net.c tests/fake/dns_net.h \
	tests/fake/loop_fake.c tests/fake/loop_fake.h \
	tests/fake/proxy_fake.c tests/fake/proxy_fake.h \
	tests/fake/socket_fake.c tests/fake/socket_fake.h
fake_proxy_libs = libproxy.a libnet.a libjudge.a libpolicy.a liblease.a libcompiler.a libimage.a libdocument.a libconfig.a \
	libmetrics.a libwire.a libdecision.a libfacts.a libbase.a $(CARES_LIBS) $(MAXMINDDB_LIBS) $(PSL_LIBS) $(IDN2_LIBS) \
	$(JANSSON_LIBS) $(CRYPTO_LIBS)
