# Unit tests of src/metrics; the pattern is in tests/unit/local.mk.
if HAVE_CRITERION
check_PROGRAMS += unit_metrics
TESTS += unit_metrics
unit_metrics_CPPFLAGS = $(AM_CPPFLAGS) $(CRITERION_CFLAGS)
unit_metrics_SOURCES = \
	tests/unit/metrics/test_exposition.c \
	tests/unit/metrics/test_metrics.c
unit_metrics_LDADD = libmetrics.a libdecision.a libbase.a $(CRYPTO_LIBS) $(CRITERION_LIBS)
endif
