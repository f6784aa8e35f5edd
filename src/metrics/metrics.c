/* The block of one worker. Written by one thread with relaxed atomics; readers may see series a
 * moment apart. */
#include "metrics/metrics.h"

#include "base/alloc.h"

struct metrics *metrics_create(void)
{
	/* All series start at zero, which is what zeroed memory is for lock-free atomics. */
	return alloc_zeroed(sizeof(struct metrics));
}

void metrics_destroy(struct metrics *m)
{
	alloc_free(m);
}

static enum reason sound(enum reason why)
{
	return (unsigned)why < REASON_COUNT ? why : REASON_INTERNAL;
}

void metrics_decision(struct metrics *m, enum reason why)
{
	atomic_fetch_add_explicit(&m->reason[sound(why)], 1, memory_order_relaxed);
}

void metrics_cut(struct metrics *m, enum reason why)
{
	atomic_fetch_add_explicit(&m->cut[sound(why)], 1, memory_order_relaxed);
}

void metrics_observe_us(struct metrics *m, enum metric_histogram id, uint64_t us)
{
	struct metrics_histogram *h = &m->histogram[id];
	uint64_t bound = metrics_first_bound_us(id);
	size_t bucket = 0;

	while (bucket < METRICS_BUCKETS && us > bound) {
		bound *= METRICS_BUCKET_GROWTH;
		bucket++;
	}
	atomic_fetch_add_explicit(&h->bucket[bucket], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->sum_us, us, memory_order_relaxed);
}

uint64_t metrics_first_bound_us(enum metric_histogram id)
{
#define HISTOGRAM(sym, name, first_us, text) [HISTOGRAM_##sym] = first_us,
	static const uint64_t first_bound_us[HISTOGRAM_COUNT] = {
#include "metrics/histograms.def"
	};
#undef HISTOGRAM

	return first_bound_us[id];
}
