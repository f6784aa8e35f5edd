# src/delivery: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libdelivery.a
libdelivery_a_CPPFLAGS = $(AM_CPPFLAGS)
libdelivery_a_SOURCES = \
	src/delivery/drain.c src/delivery/drain.h \
	src/delivery/records_file.c src/delivery/records_file.h \
	src/delivery/report.c src/delivery/report.h \
	src/delivery/spool.c src/delivery/spool.h \
	src/delivery/spool_frame.c src/delivery/spool_frame.h \
	src/delivery/upload.c src/delivery/upload.h
EXTRA_DIST += src/delivery/README.md
