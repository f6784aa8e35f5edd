# Unit tests of src/sidecar; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_sidecar
TESTS += unit_sidecar
unit_sidecar_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS) -I$(top_srcdir)/tests/unit/store -I$(top_srcdir)/tests/unit/source -I$(top_srcdir)/tests/unit/image
unit_sidecar_SOURCES = \
	tests/unit/store/fixture.c tests/unit/store/fixture.h \
	tests/unit/image/segment_builder.c tests/unit/image/segment_builder.h \
	tests/unit/sidecar/test_confine.c \
	tests/unit/sidecar/test_freshness.c \
	tests/unit/sidecar/test_hand_over.c \
	tests/unit/sidecar/test_name_servers.c \
	tests/unit/sidecar/test_publish.c \
	tests/unit/sidecar/test_publish_random.c \
	tests/unit/sidecar/test_sidecar.c \
	tests/unit/sidecar/test_state_lock.c
unit_sidecar_LDADD = libsidecar.a libserve.a libsource.a libdelivery.a libstore.a libcontrol.a libnet.a libcompiler.a libdocument.a liblease.a libimage.a \
	libsandbox.a libconfig.a libmetrics.a libwire.a libdecision.a libfacts.a libbase.a \
	$(EVENT_LIBS) $(CURL_LIBS) $(ZLIB_LIBS) $(CARES_LIBS) $(SECCOMP_LIBS) $(JANSSON_LIBS) $(PSL_LIBS) $(IDN2_LIBS) $(MAXMINDDB_LIBS) $(SSL_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
