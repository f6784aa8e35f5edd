# src/metrics: one convenience library; see README.md here for what it promises.
noinst_LIBRARIES += libmetrics.a
libmetrics_a_SOURCES =
