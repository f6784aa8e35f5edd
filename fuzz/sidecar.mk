# Fuzz targets of src/store, delivery, serve and sidecar; the pattern is in fuzz/local.mk.
FUZZ_TARGETS += fuzz_etcd_line fuzz_https_frame fuzz_publish fuzz_serve_target fuzz_spool_frame
fuzz_publish_SOURCES = fuzz/fuzz_publish.c
fuzz_publish_LDADD = libsidecar.a libsource.a libdelivery.a libstore.a libcontrol.a libnet.a libcompiler.a libdocument.a liblease.a libimage.a libconfig.a \
	libmetrics.a libwire.a libdecision.a libfacts.a libbase.a \
	$(EVENT_LIBS) $(CURL_LIBS) $(ZLIB_LIBS) $(CARES_LIBS) $(JANSSON_LIBS) $(PSL_LIBS) $(IDN2_LIBS) $(MAXMINDDB_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_etcd_line_SOURCES = fuzz/fuzz_etcd_line.c
fuzz_etcd_line_LDADD = libstore.a libdocument.a libbase.a $(JANSSON_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_https_frame_SOURCES = fuzz/fuzz_https_frame.c
fuzz_https_frame_LDADD = libstore.a libdocument.a libbase.a $(JANSSON_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_spool_frame_SOURCES = fuzz/fuzz_spool_frame.c
fuzz_spool_frame_LDADD = libdelivery.a libbase.a $(CRYPTO_LIBS) $(FUZZ_LIBS)
fuzz_serve_target_SOURCES = fuzz/fuzz_serve_target.c
fuzz_serve_target_LDADD = libserve.a libdocument.a libbase.a $(JANSSON_LIBS) $(CRYPTO_LIBS) $(FUZZ_LIBS)
