/* The block of one worker: which counter, which bucket. */
#include "metrics/metrics.h"

#include <criterion/criterion.h>

#include "base/alloc.h"

Test(metrics, start_at_zero_and_count_what_is_added)
{
	struct metrics *m = metrics_create();

	cr_assert_not_null(m);
	for (unsigned i = 0; i < METRIC_COUNT; i++)
		cr_assert_eq(m->value[i], 0);
	metrics_add(m, METRIC_BYTES_UP, 1000);
	metrics_add(m, METRIC_BYTES_UP, 24);
	metrics_add(m, METRIC_OPEN_RELAYING, 3);
	metrics_sub(m, METRIC_OPEN_RELAYING, 1);
	metrics_set(m, METRIC_LEASES, 7);
	metrics_set(m, METRIC_LEASES, 5);
	cr_expect_eq(m->value[METRIC_BYTES_UP], 1024);
	cr_expect_eq(m->value[METRIC_OPEN_RELAYING], 2);
	cr_expect_eq(m->value[METRIC_LEASES], 5);
	cr_expect_eq(m->value[METRIC_BYTES_DOWN], 0);
	metrics_destroy(m);
	metrics_destroy(NULL);
}

Test(metrics, decisions_and_cuts_are_counted_by_reason_and_impossible_ones_as_internal)
{
	struct metrics *m = metrics_create();

	metrics_decision(m, REASON_ALLOWED);
	metrics_decision(m, REASON_NO_RULE);
	metrics_decision(m, REASON_NO_RULE);
	metrics_decision(m, REASON_COUNT);
	metrics_cut(m, REASON_LEASE_REVOKED);
	metrics_cut(m, (enum reason)4711);
	cr_expect_eq(m->reason[REASON_ALLOWED], 1);
	cr_expect_eq(m->reason[REASON_NO_RULE], 2);
	cr_expect_eq(m->reason[REASON_INTERNAL], 1);
	cr_expect_eq(m->cut[REASON_LEASE_REVOKED], 1);
	cr_expect_eq(m->cut[REASON_INTERNAL], 1);
	metrics_destroy(m);
}

Test(metrics, an_observation_falls_into_the_first_bucket_whose_bound_it_does_not_pass)
{
	struct metrics *m = metrics_create();

	for (unsigned h = 0; h < HISTOGRAM_COUNT; h++) {
		struct metrics_histogram *histogram = &m->histogram[h];
		uint64_t bound = metrics_first_bound_us((enum metric_histogram)h), sum = 0;

		cr_assert_gt(bound, 0);
		for (unsigned bucket = 0; bucket < METRICS_BUCKETS; bucket++) {
			metrics_observe_us(m, (enum metric_histogram)h, bound);
			metrics_observe_us(m, (enum metric_histogram)h, bound + 1);
			sum += 2 * bound + 1;
			cr_assert_geq(histogram->bucket[bucket], 1);
			cr_assert_eq(histogram->bucket[bucket + 1], 1);
			bound *= METRICS_BUCKET_GROWTH;
		}
		metrics_observe_us(m, (enum metric_histogram)h, 0);
		cr_expect_eq(histogram->bucket[0], 2);
		cr_expect_eq(histogram->bucket[1], 2);
		cr_expect_eq(histogram->sum_us, sum);
		metrics_observe_us(m, (enum metric_histogram)h, UINT64_MAX - sum);
		cr_expect_eq(histogram->bucket[METRICS_BUCKETS], 2);
	}
	metrics_destroy(m);
}

Test(metrics, without_memory_there_is_no_block)
{
	alloc_fail_at(1);
	cr_expect_null(metrics_create());
	alloc_fail_at(0);
}
