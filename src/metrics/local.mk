# src/metrics: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libmetrics.a
libmetrics_a_SOURCES = \
	src/metrics/exposition.c src/metrics/exposition.h \
	src/metrics/histograms.def \
	src/metrics/metrics.c src/metrics/metrics.h src/metrics/metrics.def
EXTRA_DIST += src/metrics/README.md
