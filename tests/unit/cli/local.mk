# Unit tests of src/cli; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_cli
TESTS += unit_cli
unit_cli_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
unit_cli_SOURCES = \
	tests/unit/cli/fixture.c tests/unit/cli/fixture.h \
	tests/unit/cli/test_args.c \
	tests/unit/cli/test_commands.c \
	tests/unit/cli/test_print.c
unit_cli_LDADD = libcli.a libauthority.a libcontrol.a libnet.a libcompiler.a libjudge.a libpolicy.a liblease.a libdocument.a \
	libimage.a libconfig.a libmetrics.a libwire.a libdecision.a libfacts.a libbase.a \
	$(EVENT_LIBS) $(CARES_LIBS) $(JANSSON_LIBS) $(PSL_LIBS) $(IDN2_LIBS) $(MAXMINDDB_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
