# src/sidecar: a library for its tests, and the program; see README.md here for what it promises.
noinst_LIBRARIES += libsidecar.a
libsidecar_a_CPPFLAGS = $(AM_CPPFLAGS) $(CURL_CFLAGS) $(ZLIB_CFLAGS) $(SSL_CFLAGS)
libsidecar_a_SOURCES = \
	src/sidecar/accept.c src/sidecar/accept.h \
	src/sidecar/confine.c src/sidecar/confine.h \
	src/sidecar/ceiling.c src/sidecar/ceiling.h \
	src/sidecar/driver.h src/sidecar/driver_file.c \
	src/sidecar/driver_signed.c src/sidecar/driver_signed.h \
	src/sidecar/floor_log.c src/sidecar/floor_log.h src/sidecar/floor_mark.h \
	src/sidecar/floors.c src/sidecar/floors.h \
	src/sidecar/base64.c src/sidecar/base64.h \
	src/sidecar/drain.c src/sidecar/drain.h \
	src/sidecar/gzip.c src/sidecar/gzip.h \
	src/sidecar/records_file.c src/sidecar/records_file.h \
	src/sidecar/spool.c src/sidecar/spool.h \
	src/sidecar/spool_frame.c src/sidecar/spool_frame.h \
	src/sidecar/upload.c src/sidecar/upload.h \
	src/sidecar/driver_https.c src/sidecar/driver_https.h \
	src/sidecar/driver_etcd.c src/sidecar/driver_etcd.h \
	src/sidecar/endpoints.c src/sidecar/endpoints.h \
	src/sidecar/etcd_client.c src/sidecar/etcd_client.h \
	src/sidecar/etcd_line.c src/sidecar/etcd_line.h \
	src/sidecar/etcd_request.c src/sidecar/etcd_request.h \
	src/sidecar/frames.c src/sidecar/frames.h \
	src/sidecar/folder_notify.c src/sidecar/folder_notify.h \
	src/sidecar/frames_file.c src/sidecar/frames_file.h \
	src/sidecar/frames_remote.c src/sidecar/frames_remote.h \
	src/sidecar/freshness.c src/sidecar/freshness.h \
	src/sidecar/hand_over.c src/sidecar/hand_over.h \
	src/sidecar/holding.h \
	src/sidecar/http.c src/sidecar/http.h \
	src/sidecar/https_frame.c src/sidecar/https_frame.h \
	src/sidecar/name_servers.c src/sidecar/name_servers.h \
	src/sidecar/open_socket.c src/sidecar/open_socket.h \
	src/sidecar/lease_book.c src/sidecar/lease_book_internal.h \
	src/sidecar/publish.c src/sidecar/publish.h src/sidecar/publish_internal.h \
	src/sidecar/publish_offer.c src/sidecar/publish_ship.c src/sidecar/publish_slots.c \
	src/sidecar/report.c src/sidecar/report.h \
	src/sidecar/resource.c src/sidecar/resource_internal.h \
	src/sidecar/segment_store.c src/sidecar/segment_store_internal.h \
	src/sidecar/sidecar.c src/sidecar/sidecar.h src/sidecar/sidecar_commands.c src/sidecar/sidecar_internal.h \
	src/sidecar/serve.c src/sidecar/serve.h \
	src/sidecar/serve_cell.c src/sidecar/serve_cell.h src/sidecar/serve_edition.c \
	src/sidecar/serve_etcd.c src/sidecar/serve_etcd.h \
	src/sidecar/serve_client.c src/sidecar/serve_request.c \
	src/sidecar/serve_feed.c src/sidecar/serve_feed.h \
	src/sidecar/serve_http.c src/sidecar/serve_http.h src/sidecar/serve_http_internal.h \
	src/sidecar/serve_plan.c src/sidecar/serve_plan.h \
	src/sidecar/serve_reports.c src/sidecar/serve_reports.h \
	src/sidecar/serve_shelf.c src/sidecar/serve_shelf.h \
	src/sidecar/serve_target.c src/sidecar/serve_target.h \
	src/sidecar/serve_tls.c src/sidecar/serve_tls.h \
	src/sidecar/signed_set.c src/sidecar/signed_set.h src/sidecar/signed_set_internal.h \
	src/sidecar/signed_examine.c src/sidecar/signed_force.c src/sidecar/signed_shelf.c \
	src/sidecar/state_lock.c src/sidecar/state_lock.h \
	src/sidecar/status.c \
	src/sidecar/sticky.c src/sidecar/sticky.h

sbin_PROGRAMS += egress-sidecar
egress_sidecar_SOURCES = src/sidecar/main.c
egress_sidecar_LDADD = libsidecar.a libcontrol.a libnet.a libcompiler.a libdocument.a liblease.a libimage.a \
	libsandbox.a libconfig.a libmetrics.a libwire.a libdecision.a libfacts.a libbase.a \
	$(EVENT_LIBS) $(CURL_LIBS) $(ZLIB_LIBS) $(CARES_LIBS) $(SECCOMP_LIBS) $(JANSSON_LIBS) $(PSL_LIBS) $(IDN2_LIBS) $(MAXMINDDB_LIBS) $(SSL_LIBS) $(CRYPTO_LIBS)
EXTRA_DIST += src/sidecar/README.md
