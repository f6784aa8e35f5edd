# src/control: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libcontrol.a
libcontrol_a_SOURCES = \
	src/control/channel.c src/control/channel.h \
	src/control/client.c src/control/client.h \
	src/control/command.c src/control/command.h \
	src/control/fold.c src/control/fold_internal.h \
	src/control/packet_internal.h \
	src/control/record_ring.c src/control/record_ring.h \
	src/control/record_stream.c src/control/record_stream.h
EXTRA_DIST += src/control/README.md
