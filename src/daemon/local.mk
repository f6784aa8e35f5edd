# src/daemon: egressd itself; see README.md here for what it promises.
sbin_PROGRAMS += egressd
egressd_SOURCES = \
	src/daemon/admin.c \
	src/daemon/boot.c src/daemon/boot.h \
	src/daemon/commands.c \
	src/daemon/daemon.c src/daemon/daemon.h \
	src/daemon/main.c \
	src/daemon/peers.c \
	src/daemon/reload.c \
	src/daemon/report.c src/daemon/report.h \
	src/daemon/segment_store.c src/daemon/segment_store.h \
	src/daemon/sidecar_link.c \
	src/daemon/slots.c src/daemon/slots.h
egressd_LDADD = libproxy.a libcontrol.a libjudge.a libpolicy.a liblease.a libimage.a libnet.a libsandbox.a \
	libconfig.a libmetrics.a libwire.a libdecision.a libfacts.a libbase.a \
	$(EVENT_LIBS) $(CARES_LIBS) $(CRYPTO_LIBS) $(SECCOMP_LIBS) $(MAXMINDDB_LIBS)
EXTRA_DIST += src/daemon/README.md
