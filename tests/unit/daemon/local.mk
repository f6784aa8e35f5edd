# Unit tests of src/daemon; the pattern is in tests/unit/local.mk. The daemon is a program, so its files are compiled in. What needs
# a whole daemon is tested on real processes.
if HAVE_CRITERION
check_PROGRAMS += unit_daemon
TESTS += unit_daemon
unit_daemon_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS) -I$(top_srcdir)/tests/unit/image
unit_daemon_SOURCES = \
	src/daemon/segment_store.c src/daemon/segment_store.h \
	src/daemon/slots.c src/daemon/slots.h \
	tests/unit/image/segment_builder.c tests/unit/image/segment_builder.h \
	tests/unit/daemon/test_segment_store.c \
	tests/unit/daemon/test_slots.c
unit_daemon_LDADD = liblease.a libimage.a libdecision.a libfacts.a libbase.a $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
