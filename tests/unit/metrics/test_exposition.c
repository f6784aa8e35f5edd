/* The text that a scraper reads: every series once, sums over workers, histograms that add up. */
#include "metrics/exposition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "base/alloc.h"
#include "base/attr.h"

#define TEXT_MAX (256 * 1024)

/* The exposition of `blocks` as zero-terminated text; the caller frees it. */
static char *exposed(struct metrics *const *blocks, size_t count)
{
	struct buf out;
	char *text;

	buf_init(&out, TEXT_MAX);
	cr_assert_eq(exposition_write(blocks, count, &out), ERR_OK);
	text = alloc_copy(buf_data(&out), out.len);
	cr_assert_not_null(text);
	buf_finish(&out);
	return text;
}

static bool has_line(const char *text, const char *line)
{
	size_t len = strlen(line);

	for (const char *at = strstr(text, line); at != NULL; at = strstr(at + 1, line)) {
		if ((at == text || at[-1] == '\n') && at[len] == '\n')
			return true;
	}
	return false;
}

static unsigned count_of(const char *text, const char *part)
{
	unsigned count = 0;

	for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part))
		count++;
	return count;
}

Test(exposition, sums_counters_over_all_workers)
{
	struct metrics *blocks[2] = { metrics_create(), metrics_create() };
	char *text;

	metrics_add(blocks[0], METRIC_ACCEPTED, 40);
	metrics_add(blocks[1], METRIC_ACCEPTED, 2);
	metrics_add(blocks[1], METRIC_LOOP_TURNS, 9);
	metrics_decision(blocks[0], REASON_NO_RULE);
	metrics_decision(blocks[1], REASON_NO_RULE);
	metrics_cut(blocks[1], REASON_LEASE_REVOKED);
	text = exposed(blocks, 2);
	cr_expect(has_line(text, "egress_connections_total{result=\"accepted\"} 42"));
	cr_expect(has_line(text, "egress_connections_total{result=\"rejected\"} 0"));
	cr_expect(has_line(text, "egress_loop_turns_total 9"));
	cr_expect(has_line(text, "egress_decisions_total{reason=\"no_rule\"} 2"));
	cr_expect(has_line(text, "egress_decisions_total{reason=\"allowed\"} 0"));
	cr_expect(has_line(text, "egress_connections_cut_total{reason=\"lease_revoked\"} 1"));
	cr_expect(has_line(text, "egress_build_info{version=\"" PACKAGE_VERSION "\"} 1"));
	cr_expect(has_line(text, "# TYPE egress_connections_total counter"));
	cr_expect(has_line(text, "# TYPE egress_connections_open gauge"));
	cr_expect(has_line(text, "# TYPE egress_dns_duration_seconds histogram"));
	cr_expect(has_line(text, "# HELP egress_loop_turns_total Turns of the worker loops."));
	alloc_free(text);
	metrics_destroy(blocks[0]);
	metrics_destroy(blocks[1]);
}

Test(exposition, histograms_are_cumulative_and_in_seconds)
{
	struct metrics *block = metrics_create();
	char *text;

	metrics_observe_us(block, HISTOGRAM_DNS, 100); /* the first bound itself */
	metrics_observe_us(block, HISTOGRAM_DNS, 101);
	metrics_observe_us(block, HISTOGRAM_DNS, 1600);
	metrics_observe_us(block, HISTOGRAM_DNS, 9000000000); /* beyond the last */
	text = exposed(&block, 1);
	cr_expect(has_line(text, "egress_dns_duration_seconds_bucket{le=\"0.0001\"} 1"));
	cr_expect(has_line(text, "egress_dns_duration_seconds_bucket{le=\"0.0004\"} 2"));
	cr_expect(has_line(text, "egress_dns_duration_seconds_bucket{le=\"0.0016\"} 3"));
	cr_expect(has_line(text, "egress_dns_duration_seconds_bucket{le=\"1.6384\"} 3"));
	cr_expect(has_line(text, "egress_dns_duration_seconds_bucket{le=\"419.4304\"} 3"));
	cr_expect(has_line(text, "egress_dns_duration_seconds_bucket{le=\"+Inf\"} 4"));
	cr_expect(has_line(text, "egress_dns_duration_seconds_sum 9000.001801"));
	cr_expect(has_line(text, "egress_dns_duration_seconds_count 4"));
	cr_expect(has_line(text, "egress_decide_duration_seconds_bucket{le=\"0.000001\"} 0"));
	cr_expect(has_line(text, "egress_decide_duration_seconds_sum 0"));
	cr_expect_eq(count_of(text, "\negress_dns_duration_seconds_bucket{"), METRICS_BUCKETS + 1);
	alloc_free(text);
	metrics_destroy(block);
}

/* Where the metric name of a line ends. */
static size_t name_len(const char *line)
{
	return strcspn(line, "{ ");
}

Test(exposition, every_line_belongs_to_the_head_before_it_and_every_head_stands_once)
{
	struct metrics *block = metrics_create();
	char *text = exposed(&block, 1), *line, *rest = text;
	char name[128] = "", mark[160];

	cr_assert_eq(text[strlen(text) - 1], '\n');
	while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
		if (strncmp(line, "# HELP ", 7) == 0) {
			snprintf(name, sizeof(name), "%.*s", (int)name_len(line + 7), line + 7);
			cr_expect_gt(strlen(line), 7 + strlen(name) + 4, "%s has no text", name);
			snprintf(mark, sizeof(mark), "# HELP %s ", name);
			/* Lines behind this one are not cut yet. */
			cr_expect_eq(rest == NULL ? 0 : count_of(rest, mark), 0, "%s stands twice",
				     name);
			continue;
		}
		if (strncmp(line, "# TYPE ", 7) == 0) {
			cr_expect_eq(strncmp(line + 7, name, strlen(name)), 0, "%s", line);
			cr_expect_eq(strstr(line, " counter") != NULL,
				     strcmp(name + strlen(name) - 6, "_total") == 0, "%s", line);
			continue;
		}
		cr_expect_eq(strncmp(line, name, strlen(name)), 0, "%s is not of %s", line, name);
		cr_expect(strspn(strrchr(line, ' ') + 1, "0123456789.") ==
				  strlen(strrchr(line, ' ') + 1),
			  "%s", line);
	}
	alloc_free(text);
	metrics_destroy(block);
}

Test(exposition, a_series_of_the_tables_stands_for_each_row)
{
	struct metrics *block = metrics_create();
	char *text = exposed(&block, 1);

	cr_expect_eq(count_of(text, "\negress_decisions_total{reason=\""), REASON_COUNT);
	cr_expect_eq(count_of(text, "\negress_connections_cut_total{reason=\""), REASON_COUNT);
	cr_expect_eq(count_of(text, "_bucket{le=\"+Inf\"}"), HISTOGRAM_COUNT);
	/* All lines but the heads; the first head has no line feed before it. */
	cr_expect_eq(count_of(text, "\n") - count_of(text, "\n#") - 1,
		     1 + METRIC_COUNT + 2 * REASON_COUNT + HISTOGRAM_COUNT * (METRICS_BUCKETS + 3));
	alloc_free(text);
	metrics_destroy(block);
}

Test(exposition, without_blocks_all_series_are_zero)
{
	char *text = exposed(NULL, 0);

	cr_expect(has_line(text, "egress_leases 0"));
	cr_expect(has_line(text, "egress_dns_duration_seconds_count 0"));
	alloc_free(text);
}

Test(exposition, a_full_buffer_and_failing_memory_are_said)
{
	struct metrics *block = metrics_create();
	struct buf out;

	for (size_t max = 1; max < 20000; max = max * 3 + 1) {
		buf_init(&out, max);
		cr_expect_eq(exposition_write(&block, 1, &out), ERR_LIMIT);
		cr_expect_leq(out.len, max);
		buf_finish(&out);
	}
	buf_init(&out, TEXT_MAX);
	alloc_fail_at(1);
	cr_expect_eq(exposition_write(&block, 1, &out), ERR_NO_MEMORY);
	alloc_fail_at(0);
	buf_finish(&out);
	metrics_destroy(block);
}
