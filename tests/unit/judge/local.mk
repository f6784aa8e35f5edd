# Unit tests of src/judge; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_judge
TESTS += unit_judge
unit_judge_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS) -I$(top_srcdir)/tests/unit/image -I$(top_srcdir)/tests/unit/policy
unit_judge_SOURCES = \
	tests/unit/image/segment_builder.c tests/unit/image/segment_builder.h \
	tests/unit/judge/test_judge.c \
	tests/unit/judge/test_refusal.c \
	tests/unit/policy/verdict_text.c tests/unit/policy/verdict_text.h
unit_judge_LDADD = libjudge.a libpolicy.a liblease.a libimage.a libdecision.a libfacts.a libbase.a \
	$(MAXMINDDB_LIBS) $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
