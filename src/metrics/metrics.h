/*
 * Counters, gauges and histograms by table (metrics.def); one block per worker, written by one thread with relaxed
 * atomics, summed when read. Closed label sets only: never a lease, host or address.
 */
#ifndef EGRESS_METRICS_METRICS_H
#define EGRESS_METRICS_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "decision/reason.h"

/* Series: METRIC_x, or METRIC_x_value for a labelled one; see metrics.def for the rows. */
enum metric {
#define METRIC(sym, name, kind, label, value, text) METRIC_##sym,
#include "metrics/metrics.def"
#undef METRIC
	METRIC_COUNT
};
enum metric_histogram {
#define HISTOGRAM(sym, name, first_us, text) HISTOGRAM_##sym,
#include "metrics/histograms.def"
#undef HISTOGRAM
	HISTOGRAM_COUNT
};

#define METRICS_BUCKETS 12       /* bounds first_us * METRICS_BUCKET_GROWTH^i, and +Inf */
#define METRICS_BUCKET_GROWTH 4u

struct metrics_histogram {
	atomic_uint_fast64_t bucket[METRICS_BUCKETS + 1];
	atomic_uint_fast64_t sum_us;
};

struct metrics {
	atomic_uint_fast64_t value[METRIC_COUNT];
	atomic_uint_fast64_t reason[REASON_COUNT]; /* egress_decisions_total{reason=…} */
	atomic_uint_fast64_t cut[REASON_COUNT];    /* egress_connections_cut_total{reason=…} */
	struct metrics_histogram histogram[HISTOGRAM_COUNT];
};

struct metrics *metrics_create(void) ATTR_MUST_CHECK;
void metrics_destroy(struct metrics *m);
static inline void metrics_add(struct metrics *m, enum metric id, uint64_t n)
{
	atomic_fetch_add_explicit(&m->value[id], n, memory_order_relaxed);
}
static inline void metrics_sub(struct metrics *m, enum metric id, uint64_t n)
{
	atomic_fetch_sub_explicit(&m->value[id], n, memory_order_relaxed);
}
static inline void metrics_set(struct metrics *m, enum metric id, uint64_t n)
{
	atomic_store_explicit(&m->value[id], n, memory_order_relaxed);
}
void metrics_decision(struct metrics *m, enum reason why);
void metrics_cut(struct metrics *m, enum reason why);
void metrics_observe_us(struct metrics *m, enum metric_histogram id, uint64_t us);
/* Upper bound of a histogram's first bucket. */
uint64_t metrics_first_bound_us(enum metric_histogram id);

#endif
