/* Prometheus text format 0.0.4. HELP and TYPE stand once before the rows of a name; histograms are
 * in seconds. */
#include "metrics/exposition.h"

#include <string.h>

#include "base/attr.h"
#include "base/sink.h"

#define LINE_MAX_BYTES 512
#define US_PER_S 1000000u

struct series_row {
	const char *name, *kind, *label, *value, *text;
};

#define METRIC_KIND_COUNTER "counter"
#define METRIC_KIND_GAUGE "gauge"
#define METRIC(sym, series, kind_word, label_name, label_value, help)                              \
	[METRIC_##sym] = { series, METRIC_KIND_##kind_word, label_name, label_value, help },
static const struct series_row rows[] = {
#include "metrics/metrics.def"
};
#undef METRIC

#define HISTOGRAM(sym, series, first_us, help) [HISTOGRAM_##sym] = { .name = series, .text = help },
static const struct series_row histograms[] = {
#include "metrics/histograms.def"
};
#undef HISTOGRAM

/* What is being written and where to; the first failure sticks. */
struct exposition {
	struct metrics *const *blocks; /* borrowed */
	size_t count;
	struct buf *out; /* borrowed */
	enum err err;
};

static void append(struct exposition *e, const struct sink *line)
{
	if (e->err != ERR_OK)
		return;
	e->err = sink_ok(line) ? buf_append(e->out, line->bytes, line->len) : ERR_LIMIT;
}

/* HELP escapes backslash and line feed; label values escape the quote as well. */
static void put_escaped(struct sink *s, const char *text, bool in_label)
{
	for (; *text != '\0'; text++) {
		if (*text == '\n')
			sink_text(s, "\\n");
		else if (*text == '\\' || (in_label && *text == '"'))
			sink_format(s, "\\%c", *text);
		else
			sink_u8(s, (uint8_t)*text);
	}
}

static void write_head(struct exposition *e, const char *name, const char *kind, const char *text)
{
	char bytes[LINE_MAX_BYTES];
	struct sink s = sink_over(bytes, sizeof(bytes));

	sink_format(&s, "# HELP %s ", name);
	put_escaped(&s, text, false);
	sink_format(&s, "\n# TYPE %s %s\n", name, kind);
	append(e, &s);
}

/* name[suffix]{label="value"} number */
static void write_row(struct exposition *e, const char *name, const char *label, const char *value,
		      uint64_t number)
{
	char bytes[LINE_MAX_BYTES];
	struct sink s = sink_over(bytes, sizeof(bytes));

	sink_text(&s, name);
	if (label[0] != '\0') {
		sink_format(&s, "{%s=\"", label);
		put_escaped(&s, value, true);
		sink_text(&s, "\"}");
	}
	sink_format(&s, " %llu\n", (unsigned long long)number);
	append(e, &s);
}

static void write_build_info(struct exposition *e)
{
	write_head(e, "egress_build_info", "gauge", "Always 1; which build this is.");
	write_row(e, "egress_build_info", "version", PACKAGE_VERSION, 1);
}

static uint64_t load(const atomic_uint_fast64_t *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

static void write_metrics(struct exposition *e)
{
	const char *previous = "";

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct series_row *row = &rows[i];
		uint64_t sum = 0;

		if (strcmp(row->name, previous) != 0)
			write_head(e, row->name, row->kind, row->text);
		previous = row->name;
		for (size_t b = 0; b < e->count; b++)
			sum += load(&e->blocks[b]->value[i]);
		write_row(e, row->name, row->label, row->value, sum);
	}
}

static void write_reasons(struct exposition *e)
{
	write_head(e, "egress_decisions_total", "counter", "Decisions by reason.");
	for (size_t i = 0; i < REASON_COUNT; i++) {
		uint64_t sum = 0;

		for (size_t b = 0; b < e->count; b++)
			sum += load(&e->blocks[b]->reason[i]);
		write_row(e, "egress_decisions_total", "reason", reason_word((enum reason)i), sum);
	}
	write_head(e, "egress_connections_cut_total", "counter",
		   "Live connections closed by a change, by reason.");
	for (size_t i = 0; i < REASON_COUNT; i++) {
		uint64_t sum = 0;

		for (size_t b = 0; b < e->count; b++)
			sum += load(&e->blocks[b]->cut[i]);
		write_row(e, "egress_connections_cut_total", "reason", reason_word((enum reason)i),
			  sum);
	}
}

/* Microseconds as seconds, exactly, without trailing zeros. */
static void print_seconds(struct sink *s, uint64_t us)
{
	uint64_t fraction = us % US_PER_S;
	int digits = 6;

	sink_format(s, "%llu", (unsigned long long)(us / US_PER_S));
	if (fraction == 0)
		return;
	for (; fraction % 10 == 0; fraction /= 10)
		digits--;
	sink_format(s, ".%0*llu", digits, (unsigned long long)fraction);
}

static void write_bucket(struct exposition *e, const char *name, size_t bucket, uint64_t bound_us,
			 uint64_t count)
{
	char bytes[LINE_MAX_BYTES];
	struct sink s = sink_over(bytes, sizeof(bytes));

	sink_format(&s, "%s_bucket{le=\"", name);
	if (bucket == METRICS_BUCKETS)
		sink_text(&s, "+Inf");
	else
		print_seconds(&s, bound_us);
	sink_format(&s, "\"} %llu\n", (unsigned long long)count);
	append(e, &s);
}

static void write_sum(struct exposition *e, const char *name, uint64_t sum_us, uint64_t count)
{
	char bytes[LINE_MAX_BYTES];
	struct sink s = sink_over(bytes, sizeof(bytes));

	sink_format(&s, "%s_sum ", name);
	print_seconds(&s, sum_us);
	sink_format(&s, "\n%s_count %llu\n", name, (unsigned long long)count);
	append(e, &s);
}

static void write_histograms(struct exposition *e)
{
	for (size_t i = 0; i < ARRAY_LEN(histograms); i++) {
		const char *name = histograms[i].name;
		uint64_t bound_us = metrics_first_bound_us((enum metric_histogram)i);
		uint64_t count = 0, sum_us = 0;

		write_head(e, name, "histogram", histograms[i].text);
		for (size_t bucket = 0; bucket <= METRICS_BUCKETS; bucket++) {
			for (size_t b = 0; b < e->count; b++)
				count += load(&e->blocks[b]->histogram[i].bucket[bucket]);
			write_bucket(e, name, bucket, bound_us, count);
			bound_us *= METRICS_BUCKET_GROWTH;
		}
		for (size_t b = 0; b < e->count; b++)
			sum_us += load(&e->blocks[b]->histogram[i].sum_us);
		/* The count is that of the last bucket, so that the two never disagree while others
		 * write. */
		write_sum(e, name, sum_us, count);
	}
}

enum err exposition_write(struct metrics *const *blocks, size_t count, struct buf *out)
{
	struct exposition e = { .blocks = blocks, .count = count, .out = out, .err = ERR_OK };

	write_build_info(&e);
	write_metrics(&e);
	write_reasons(&e);
	write_histograms(&e);
	return e.err;
}
