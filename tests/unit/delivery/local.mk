# Unit tests of src/delivery; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_delivery
TESTS += unit_delivery
unit_delivery_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS) -I$(top_srcdir)/tests/unit/store
unit_delivery_SOURCES = \
	tests/unit/store/fixture.c tests/unit/store/fixture.h \
	tests/unit/store/web.c tests/unit/store/web.h \
	tests/unit/delivery/records_fixture.c tests/unit/delivery/records_fixture.h \
	tests/unit/delivery/test_drain.c \
	tests/unit/delivery/test_records_file.c \
	tests/unit/delivery/test_report.c \
	tests/unit/delivery/test_spool.c \
	tests/unit/delivery/test_upload.c
unit_delivery_LDADD = libdelivery.a libstore.a libcontrol.a libnet.a libcompiler.a libdocument.a liblease.a libimage.a \
	libsandbox.a libconfig.a libmetrics.a libwire.a libdecision.a libfacts.a libbase.a \
	$(EVENT_LIBS) $(CURL_LIBS) $(ZLIB_LIBS) $(CARES_LIBS) $(SECCOMP_LIBS) $(JANSSON_LIBS) $(PSL_LIBS) $(IDN2_LIBS) $(MAXMINDDB_LIBS) $(SSL_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
