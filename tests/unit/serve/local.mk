# Unit tests of src/serve; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_serve
TESTS += unit_serve
unit_serve_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS) -I$(top_srcdir)/tests/unit/store -I$(top_srcdir)/tests/unit/source
unit_serve_SOURCES = \
	tests/unit/store/fixture.c tests/unit/store/fixture.h \
	tests/unit/store/web.c tests/unit/store/web.h \
	tests/unit/source/signed_fixture.c tests/unit/source/signed_fixture.h \
	tests/unit/serve/served.c tests/unit/serve/served.h \
	tests/unit/serve/test_serve_cell.c \
	tests/unit/serve/test_serve_etcd.c \
	tests/unit/serve/test_serve_feed.c \
	tests/unit/serve/test_serve_plan.c \
	tests/unit/serve/test_serve_reports.c \
	tests/unit/serve/test_serve_target.c
unit_serve_LDADD = libserve.a libstore.a libcontrol.a libnet.a libcompiler.a libdocument.a liblease.a libimage.a \
	libsandbox.a libconfig.a libmetrics.a libwire.a libdecision.a libfacts.a libbase.a \
	$(EVENT_LIBS) $(CURL_LIBS) $(ZLIB_LIBS) $(CARES_LIBS) $(SECCOMP_LIBS) $(JANSSON_LIBS) $(PSL_LIBS) $(IDN2_LIBS) $(MAXMINDDB_LIBS) $(SSL_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
