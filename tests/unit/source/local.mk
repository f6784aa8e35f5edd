# Unit tests of src/source; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_source
TESTS += unit_source
unit_source_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS) -I$(top_srcdir)/tests/unit/store
unit_source_SOURCES = \
	tests/unit/store/fixture.c tests/unit/store/fixture.h \
	tests/unit/source/replay.c tests/unit/source/replay.h \
	tests/unit/source/signed_fixture.c tests/unit/source/signed_fixture.h \
	tests/unit/source/test_accept.c \
	tests/unit/source/test_driver_file.c \
	tests/unit/source/test_driver_signed.c \
	tests/unit/source/test_floor_log.c \
	tests/unit/source/test_floors.c \
	tests/unit/source/test_signed_random.c \
	tests/unit/source/test_sticky.c
unit_source_LDADD = libsource.a libdelivery.a libstore.a libcontrol.a libnet.a libcompiler.a libdocument.a liblease.a libimage.a \
	libsandbox.a libconfig.a libmetrics.a libwire.a libdecision.a libfacts.a libbase.a \
	$(EVENT_LIBS) $(CURL_LIBS) $(ZLIB_LIBS) $(CARES_LIBS) $(SECCOMP_LIBS) $(JANSSON_LIBS) $(PSL_LIBS) $(IDN2_LIBS) $(MAXMINDDB_LIBS) $(SSL_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
