# src/sidecar: a library for its tests, and the program; see README.md here for what it promises.
noinst_LIBRARIES += libsidecar.a
libsidecar_a_SOURCES = \
	src/sidecar/confine.c src/sidecar/confine.h \
	src/sidecar/freshness.c src/sidecar/freshness.h \
	src/sidecar/hand_over.c src/sidecar/hand_over.h \
	src/sidecar/lease_book.c \
	src/sidecar/lease_book_internal.h \
	src/sidecar/name_servers.c src/sidecar/name_servers.h \
	src/sidecar/publish.c src/sidecar/publish.h \
	src/sidecar/publish_internal.h \
	src/sidecar/publish_offer.c \
	src/sidecar/publish_ship.c \
	src/sidecar/publish_slots.c \
	src/sidecar/resource.c \
	src/sidecar/resource_internal.h \
	src/sidecar/sidecar.c src/sidecar/sidecar.h \
	src/sidecar/sidecar_commands.c \
	src/sidecar/sidecar_internal.h \
	src/sidecar/state_lock.c src/sidecar/state_lock.h \
	src/sidecar/status.c

sbin_PROGRAMS += egress-sidecar
egress_sidecar_SOURCES = src/sidecar/main.c
egress_sidecar_LDADD = libsidecar.a libserve.a libsource.a libdelivery.a libstore.a libcontrol.a libnet.a libcompiler.a libdocument.a liblease.a libimage.a \
	libsandbox.a libconfig.a libmetrics.a libwire.a libdecision.a libfacts.a libbase.a \
	$(EVENT_LIBS) $(CURL_LIBS) $(ZLIB_LIBS) $(CARES_LIBS) $(SECCOMP_LIBS) $(JANSSON_LIBS) $(PSL_LIBS) $(IDN2_LIBS) $(MAXMINDDB_LIBS) $(SSL_LIBS) $(CRYPTO_LIBS)
EXTRA_DIST += src/sidecar/README.md
