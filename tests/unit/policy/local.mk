# Unit tests of src/policy; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_policy
TESTS += unit_policy
unit_policy_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS) -I$(top_srcdir)/tests/unit/image
unit_policy_SOURCES = \
	tests/unit/image/segment_builder.c tests/unit/image/segment_builder.h \
	tests/unit/policy/test_label_index.c \
	tests/unit/policy/test_match.c \
	tests/unit/policy/test_prefix_index.c \
	tests/unit/policy/test_trace.c \
	tests/unit/policy/verdict_text.c tests/unit/policy/verdict_text.h
unit_policy_LDADD = libpolicy.a libimage.a libdecision.a libfacts.a libbase.a \
	$(MAXMINDDB_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
