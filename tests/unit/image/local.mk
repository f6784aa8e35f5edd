# Unit tests of src/image; the pattern is in tests/unit/local.mk. segment_builder is also used by lease, policy and judge.
if HAVE_CRITERION
check_PROGRAMS += unit_image
TESTS += unit_image
unit_image_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
unit_image_SOURCES = \
	tests/unit/image/segment_builder.c tests/unit/image/segment_builder.h \
	tests/unit/image/test_segment.c \
	tests/unit/image/test_segment_verify.c \
	tests/unit/image/test_snapshot.c
unit_image_LDADD = libimage.a libdecision.a libfacts.a libbase.a $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
