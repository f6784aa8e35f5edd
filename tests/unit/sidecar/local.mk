# Unit tests of src/sidecar; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_sidecar
TESTS += unit_sidecar
unit_sidecar_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS) -I$(top_srcdir)/tests/unit/image
unit_sidecar_SOURCES = \
	tests/unit/image/segment_builder.c tests/unit/image/segment_builder.h \
	tests/unit/sidecar/fixture.c tests/unit/sidecar/fixture.h \
	tests/unit/sidecar/signed_fixture.c tests/unit/sidecar/signed_fixture.h \
	tests/unit/sidecar/test_accept.c \
	tests/unit/sidecar/test_floor_log.c \
	tests/unit/sidecar/test_floors.c \
	tests/unit/sidecar/heard.c tests/unit/sidecar/heard.h \
	tests/unit/sidecar/records_fixture.c tests/unit/sidecar/records_fixture.h \
	tests/unit/sidecar/test_base64.c \
	tests/unit/sidecar/test_drain.c \
	tests/unit/sidecar/test_records_file.c \
	tests/unit/sidecar/test_spool.c \
	tests/unit/sidecar/test_upload.c \
	tests/unit/sidecar/test_driver_etcd.c \
	tests/unit/sidecar/test_driver_https.c \
	tests/unit/sidecar/test_etcd_line.c \
	tests/unit/sidecar/test_endpoints.c \
	tests/unit/sidecar/test_folder_notify.c \
	tests/unit/sidecar/test_frames_file.c \
	tests/unit/sidecar/test_frames.c \
	tests/unit/sidecar/test_frames_remote.c \
	tests/unit/sidecar/test_http.c \
	tests/unit/sidecar/test_https_frame.c \
	tests/unit/sidecar/web.c tests/unit/sidecar/web.h \
	tests/unit/sidecar/test_freshness.c \
	tests/unit/sidecar/test_hand_over.c \
	tests/unit/sidecar/test_confine.c \
	tests/unit/sidecar/test_driver_file.c \
	tests/unit/sidecar/test_driver_signed.c \
	tests/unit/sidecar/test_name_servers.c \
	tests/unit/sidecar/replay.c tests/unit/sidecar/replay.h \
	tests/unit/sidecar/test_publish.c \
	tests/unit/sidecar/test_publish_random.c \
	tests/unit/sidecar/test_signed_random.c \
	tests/unit/sidecar/test_report.c \
	tests/unit/sidecar/served.c tests/unit/sidecar/served.h \
	tests/unit/sidecar/test_serve_cell.c \
	tests/unit/sidecar/test_serve_etcd.c \
	tests/unit/sidecar/test_serve_feed.c \
	tests/unit/sidecar/test_serve_plan.c \
	tests/unit/sidecar/test_serve_reports.c \
	tests/unit/sidecar/test_serve_target.c \
	tests/unit/sidecar/test_sidecar.c \
	tests/unit/sidecar/test_state_lock.c \
	tests/unit/sidecar/test_sticky.c
unit_sidecar_LDADD = libsidecar.a libcontrol.a libnet.a libcompiler.a libdocument.a libimage.a liblease.a libsandbox.a \
	libconfig.a libmetrics.a libwire.a libdecision.a libfacts.a libbase.a \
	$(EVENT_LIBS) $(CURL_LIBS) $(ZLIB_LIBS) $(CARES_LIBS) $(SECCOMP_LIBS) $(JANSSON_LIBS) $(PSL_LIBS) $(IDN2_LIBS) $(MAXMINDDB_LIBS) $(SSL_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
