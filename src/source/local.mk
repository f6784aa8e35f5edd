# src/source: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libsource.a
libsource_a_SOURCES = \
	src/source/accept.c src/source/accept.h \
	src/source/ceiling.c src/source/ceiling.h \
	src/source/driver.h \
	src/source/driver_file.c \
	src/source/driver_signed.c src/source/driver_signed.h \
	src/source/floor_log.c src/source/floor_log.h \
	src/source/floor_mark.h \
	src/source/floors.c src/source/floors.h \
	src/source/holding.h \
	src/source/segment_store.c src/source/segment_store.h \
	src/source/signed_examine.c \
	src/source/signed_force.c \
	src/source/signed_set.c src/source/signed_set.h \
	src/source/signed_set_internal.h \
	src/source/signed_shelf.c \
	src/source/sticky.c src/source/sticky.h
EXTRA_DIST += src/source/README.md
