# src/image: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libimage.a
libimage_a_SOURCES = \
	src/image/layout.h \
	src/image/segment.c src/image/segment.h src/image/segment_internal.h \
	src/image/segment_verify.c \
	src/image/snapshot.c src/image/snapshot.h
EXTRA_DIST += src/image/README.md
