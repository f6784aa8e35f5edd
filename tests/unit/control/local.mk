# Unit tests of src/control; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_control
TESTS += unit_control
unit_control_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
unit_control_SOURCES = \
	tests/unit/control/fixture.c tests/unit/control/fixture.h \
	tests/unit/control/test_channel.c \
	tests/unit/control/test_command.c \
	tests/unit/control/test_record_ring.c \
	tests/unit/control/test_record_stream.c
unit_control_LDADD = libcontrol.a libnet.a libmetrics.a libwire.a libdecision.a libfacts.a libbase.a \
	$(EVENT_LIBS) $(CARES_LIBS) $(MAXMINDDB_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
