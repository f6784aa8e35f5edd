# src/store: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libstore.a
libstore_a_CPPFLAGS = $(AM_CPPFLAGS) $(CURL_CFLAGS) $(ZLIB_CFLAGS)
libstore_a_SOURCES = \
	src/store/base64.c src/store/base64.h \
	src/store/driver_etcd.c src/store/driver_etcd.h \
	src/store/driver_https.c src/store/driver_https.h \
	src/store/endpoints.c src/store/endpoints.h \
	src/store/etcd_client.c src/store/etcd_client.h \
	src/store/etcd_line.c src/store/etcd_line.h \
	src/store/etcd_request.c src/store/etcd_request.h \
	src/store/folder_notify.c src/store/folder_notify.h \
	src/store/frames.c src/store/frames.h \
	src/store/frames_file.c src/store/frames_file.h \
	src/store/frames_remote.c src/store/frames_remote.h \
	src/store/gzip.c src/store/gzip.h \
	src/store/http.c src/store/http.h \
	src/store/https_frame.c src/store/https_frame.h
EXTRA_DIST += src/store/README.md
