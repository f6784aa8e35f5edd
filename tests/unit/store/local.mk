# Unit tests of src/store; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_store
TESTS += unit_store
unit_store_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
unit_store_SOURCES = \
	tests/unit/store/fixture.c tests/unit/store/fixture.h \
	tests/unit/store/heard.c tests/unit/store/heard.h \
	tests/unit/store/test_base64.c \
	tests/unit/store/test_driver_etcd.c \
	tests/unit/store/test_driver_https.c \
	tests/unit/store/test_endpoints.c \
	tests/unit/store/test_etcd_line.c \
	tests/unit/store/test_folder_notify.c \
	tests/unit/store/test_frames.c \
	tests/unit/store/test_frames_file.c \
	tests/unit/store/test_frames_remote.c \
	tests/unit/store/test_http.c \
	tests/unit/store/test_https_frame.c \
	tests/unit/store/web.c tests/unit/store/web.h
unit_store_LDADD = libstore.a libcontrol.a libnet.a libcompiler.a libdocument.a liblease.a libimage.a \
	libsandbox.a libconfig.a libmetrics.a libwire.a libdecision.a libfacts.a libbase.a \
	$(EVENT_LIBS) $(CURL_LIBS) $(ZLIB_LIBS) $(CARES_LIBS) $(SECCOMP_LIBS) $(JANSSON_LIBS) $(PSL_LIBS) $(IDN2_LIBS) $(MAXMINDDB_LIBS) $(SSL_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
