# src/cli: a library for its tests, and egressctl; see README.md here for what it promises.
noinst_LIBRARIES += libcli.a
libcli_a_SOURCES = \
	src/cli/args.c src/cli/cli.h \
	src/cli/candidate.c src/cli/candidate.h \
	src/cli/cmd_authority.c \
	src/cli/cmd_daemon.c \
	src/cli/cmd_explain.c \
	src/cli/cmd_lint.c \
	src/cli/cmd_token.c \
	src/cli/explain.c src/cli/explain.h \
	src/cli/print.c src/cli/print.h

bin_PROGRAMS += egressctl
egressctl_SOURCES = src/cli/main.c
egressctl_LDADD = libcli.a libauthority.a libcontrol.a libnet.a libcompiler.a libjudge.a libpolicy.a liblease.a libdocument.a \
	libimage.a libconfig.a libmetrics.a libwire.a libdecision.a libfacts.a libbase.a \
	$(EVENT_LIBS) $(CARES_LIBS) $(JANSSON_LIBS) $(PSL_LIBS) $(IDN2_LIBS) $(MAXMINDDB_LIBS) $(CRYPTO_LIBS)
EXTRA_DIST += src/cli/README.md
