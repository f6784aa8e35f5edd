/* Records from many threads to pipes and files: whole lines, numbers without holes but for losses, folding, slow and broken sinks. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "control/record_stream.h"
#include "fixture.h"

static uint64_t now_ms = 1000000;

static uint64_t fake_mono_ns(void)
{
	return now_ms * 1000000;
}

static uint64_t fake_wall_ms(void)
{
	return 1796050000000 + now_ms;
}

static const struct clock_source fake = { fake_mono_ns, fake_wall_ms };

struct bench {
	struct loop *loop;
	struct metrics *metrics;
	struct record_stream *stream;
	int pipe[2];
	char text[1 << 20];
	size_t len;
};

static struct bench *bench_start(size_t queue_max)
{
	static const struct record_observer observer = { .proxy_uid = "px", .version = "0" };
	struct bench *b = alloc_zeroed(sizeof(*b));

	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(crypto_init(), ERR_OK);
	b->loop = loop_create();
	b->metrics = metrics_create();
	cr_assert_eq(pipe2(b->pipe, O_CLOEXEC | O_NONBLOCK), 0);
	cr_assert_eq(record_stream_create(b->loop, b->metrics, &observer, queue_max, &b->stream),
		     ERR_OK);
	return b;
}

static void bench_stop(struct bench *b)
{
	record_stream_destroy(b->stream);
	loop_destroy(b->loop);
	metrics_destroy(b->metrics);
	if (b->pipe[0] >= 0)
		close(b->pipe[0]);
	alloc_free(b);
}

/* Hand the pipe over, as the daemon hands over what it received. */
static void use_pipe(struct bench *b)
{
	record_stream_set_sink(b->stream, b->pipe[1]);
	b->pipe[1] = -1;
}

static void read_pipe(struct bench *b)
{
	ssize_t n;

	while ((n = read(b->pipe[0], b->text + b->len, sizeof(b->text) - b->len)) > 0)
		b->len += (size_t)n;
}

static uint64_t metric(const struct bench *b, enum metric id)
{
	return b->metrics->value[id];
}

static struct record denial(const char *lease, const char *host)
{
	struct record r = { .event = RECORD_DECISION, .wall_ms = clock_wall_ms() };

	snprintf(r.id, sizeof(r.id), "01JDXA7Q000000000000000000");
	snprintf(r.lease, sizeof(r.lease), "%s", lease);
	r.target_known = true;
	cr_assert_eq(target_from_host(text_of(host), 443, &r.target), TARGET_OK);
	r.verdict = verdict_refuse(REASON_NO_RULE);
	return r;
}

static struct record allowance(const char *lease, const char *host)
{
	struct record r = denial(lease, host);

	r.verdict.allow = true;
	r.verdict.reason = REASON_ALLOWED;
	return r;
}

/* Read the next line; false at the end. */
static bool next_record(const struct bench *b, size_t *at, struct record *out)
{
	const char *end = memchr(b->text + *at, '\n', b->len - *at);
	size_t len;

	if (end == NULL) {
		cr_assert_eq(*at, b->len, "a part of a line at the end");
		return false;
	}
	len = (size_t)(end - (b->text + *at)) + 1;
	cr_assert_eq(record_json_read(b->text + *at, len, out), PARSED_OK, "%.*s", (int)len,
		     b->text + *at);
	*at += len;
	return true;
}

#define THREADS 4
#define EACH 200

static void *put_many(void *arg)
{
	struct bench *b = arg;

	for (unsigned i = 0; i < EACH; i++) {
		struct record r = allowance("ls_a", "a.example.org");

		record_stream_put(b->stream, &r);
	}
	return NULL;
}

Test(record_stream, takes_from_many_threads_and_writes_each_once_in_whole_lines)
{
	struct bench *b = bench_start(100000);
	pthread_t threads[THREADS];
	struct record r;
	size_t at = 0;
	uint64_t count = 0;

	use_pipe(b);
	for (unsigned i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, put_many, b), 0);
	for (unsigned turns = 0; metric(b, METRIC_RECORDS_SENT) < THREADS * EACH && turns < 100000;
	     turns++) {
		loop_turn(b->loop, 5);
		read_pipe(b);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	read_pipe(b);
	while (next_record(b, &at, &r))
		cr_assert_eq(r.sequence, ++count);
	cr_assert_eq(count, THREADS * EACH);
	cr_assert_eq(metric(b, METRIC_RECORDS_DROPPED), 0);
	bench_stop(b);
}

Test(record_stream, drops_allowed_ones_first_and_numbers_show_the_gap)
{
	struct bench *b = bench_start(8);
	struct record r = allowance("ls_a", "a.example.org"), no;
	size_t at = 0;
	unsigned seen = 0;

	use_pipe(b);
	for (unsigned i = 0; i < 6; i++)
		cr_assert(record_stream_put(b->stream, &r));
	cr_assert_not(record_stream_has_room(b->stream));
	cr_assert_not(record_stream_put(b->stream, &r));
	r.event = RECORD_CLOSE;
	cr_assert_not(record_stream_put(b->stream, &r));
	no = denial("ls_a", "b.example.org");
	cr_assert(record_stream_put(b->stream, &no));
	no = denial("ls_a", "c.example.org");
	cr_assert(record_stream_put(b->stream, &no));
	no = denial("ls_a", "d.example.org");
	cr_assert_not(record_stream_put(b->stream, &no));
	cr_assert_eq(metric(b, METRIC_RECORDS_DROPPED), 3);
	fixture_settle(b->loop);
	cr_assert(record_stream_has_room(b->stream));
	r = allowance("ls_a", "last.example.org");
	cr_assert(record_stream_put(b->stream, &r));
	fixture_settle(b->loop);
	read_pipe(b);
	while (next_record(b, &at, &r))
		seen++;
	cr_assert_eq(seen, 9);
	cr_assert_eq(r.sequence, 12, "nine written and three lost before the last");
	bench_stop(b);
}

Test(record_stream, folds_repeated_denials_and_the_counts_add_up)
{
	struct bench *b = bench_start(1000);
	struct record r;
	size_t at = 0;
	unsigned denials = 0, lines = 0;

	clock_use(&fake);
	use_pipe(b);
	for (unsigned i = 0; i < 50; i++) {
		now_ms += 100;
		r = denial("ls_a", "a.example.org");
		cr_assert(record_stream_put(b->stream, &r));
		/* Each differs in one respect and folds only with its like. */
		r = denial("ls_b", "a.example.org");
		cr_assert(record_stream_put(b->stream, &r));
		r = denial("ls_a", "b.example.org");
		cr_assert(record_stream_put(b->stream, &r));
		r = denial("ls_a", "a.example.org");
		r.target.port = 80;
		cr_assert(record_stream_put(b->stream, &r));
		r = denial("ls_a", "a.example.org");
		r.verdict.reason = REASON_RULE_DENY;
		cr_assert(record_stream_put(b->stream, &r));
		r = denial("ls_a", "192.0.2.1");
		cr_assert(record_stream_put(b->stream, &r));
		fixture_settle(b->loop);
	}
	read_pipe(b);
	while (next_record(b, &at, &r)) {
		cr_assert_leq(r.count, 1, "the first of each at once");
		lines++;
	}
	cr_assert_eq(lines, 6);
	now_ms += 10000;
	/* The next denial ends what is over, and begins anew. */
	r = denial("ls_a", "a.example.org");
	cr_assert(record_stream_put(b->stream, &r));
	fixture_settle(b->loop);
	read_pipe(b);
	lines = 0;
	while (next_record(b, &at, &r)) {
		lines++;
		denials += r.count == 0 ? 1 : r.count;
		if (r.count > 1) {
			cr_assert_eq(r.count, 49);
			cr_assert_eq(r.wall_ms - r.first_wall_ms, 4800);
		}
	}
	cr_assert_eq(lines, 7);
	cr_assert_eq(denials, 6 * 49 + 1);
	bench_stop(b);
}

Test(record_stream, never_folds_what_was_allowed_or_ended)
{
	struct bench *b = bench_start(1000);
	struct record r;
	size_t at = 0;
	unsigned lines = 0;

	use_pipe(b);
	for (unsigned i = 0; i < 10; i++) {
		r = allowance("ls_a", "a.example.org");
		cr_assert(record_stream_put(b->stream, &r));
		r.event = RECORD_CLOSE;
		cr_assert(record_stream_put(b->stream, &r));
		r = denial("ls_a", "a.example.org");
		r.event = RECORD_CUT;
		cr_assert(record_stream_put(b->stream, &r));
	}
	fixture_settle(b->loop);
	read_pipe(b);
	while (next_record(b, &at, &r))
		lines++;
	cr_assert_eq(lines, 30);
	bench_stop(b);
}

Test(record_stream, waits_for_a_slow_reader_and_tears_no_line)
{
	struct bench *b = bench_start(4000);
	struct record r = allowance("ls_a", "a.example.org");
	size_t at = 0;
	uint64_t count = 0;
	unsigned put = 0;

	cr_assert_eq(fcntl(b->pipe[1], F_SETPIPE_SZ, 4096), 4096);
	use_pipe(b);
	while (put < 500) {
		cr_assert(record_stream_put(b->stream, &r));
		put++;
	}
	fixture_settle(b->loop);
	cr_assert_lt(metric(b, METRIC_RECORDS_SENT), 500);
	for (unsigned turns = 0; metric(b, METRIC_RECORDS_SENT) < 500 && turns < 100000; turns++) {
		char some[997];
		ssize_t n = read(b->pipe[0], some, sizeof(some));

		if (n > 0) {
			memcpy(b->text + b->len, some, (size_t)n);
			b->len += (size_t)n;
		}
		loop_turn(b->loop, 0);
	}
	read_pipe(b);
	while (next_record(b, &at, &r))
		cr_assert_eq(r.sequence, ++count);
	cr_assert_eq(count, 500);
	bench_stop(b);
}

Test(record_stream, writes_a_torn_line_whole_to_the_next_sink)
{
	struct bench *b = bench_start(4000);
	struct record r = allowance("ls_a", "a.example.org");
	size_t at = 0;
	uint64_t sent_before, first = 0, count = 0;
	int fresh[2];

	cr_assert_eq(fcntl(b->pipe[1], F_SETPIPE_SZ, 4096), 4096);
	use_pipe(b);
	for (unsigned i = 0; i < 100; i++)
		cr_assert(record_stream_put(b->stream, &r));
	fixture_settle(b->loop);
	sent_before = metric(b, METRIC_RECORDS_SENT);
	close(b->pipe[0]);
	cr_assert_eq(pipe2(fresh, O_CLOEXEC | O_NONBLOCK), 0);
	b->pipe[0] = fresh[0];
	record_stream_set_sink(b->stream, fresh[1]);
	for (unsigned i = 0; i < 100; i++) {
		loop_turn(b->loop, 0);
		read_pipe(b);
	}
	while (next_record(b, &at, &r)) {
		if (first == 0)
			first = r.sequence;
		count++;
	}
	cr_assert_gt(sent_before, 0);
	cr_assert_eq(first, sent_before + 1);
	cr_assert_eq(sent_before + count, 100);
	bench_stop(b);
}

Test(record_stream, counts_as_lost_what_a_gone_reader_or_no_sink_takes)
{
	struct bench *b = bench_start(100);
	struct record r = allowance("ls_a", "a.example.org");

	cr_assert_not(record_stream_has_room(b->stream));
	record_stream_put(b->stream, &r);
	fixture_settle(b->loop);
	cr_assert_eq(metric(b, METRIC_RECORDS_DROPPED), 1);
	use_pipe(b);
	cr_assert(record_stream_has_room(b->stream));
	close(b->pipe[0]);
	b->pipe[0] = -1;
	record_stream_put(b->stream, &r);
	fixture_settle(b->loop);
	cr_assert_eq(metric(b, METRIC_RECORDS_DROPPED), 2);
	cr_assert_not(record_stream_has_room(b->stream));
	cr_assert_eq(metric(b, METRIC_RECORDS_SENT), 0);
	bench_stop(b);
}

Test(record_stream, goes_on_with_the_same_line_once_a_full_disk_has_room)
{
	struct bench *b = bench_start(100);
	struct record r = allowance("ls_a", "a.example.org");
	struct rlimit small = { .rlim_cur = 1000, .rlim_max = RLIM_INFINITY };
	char folder[64], path[100];
	size_t at = 0;
	uint64_t count = 0;
	int fd;

	signal(SIGXFSZ, SIG_IGN);
	fixture_make_folder(folder);
	snprintf(path, sizeof(path), "%s/records", folder);
	fd = open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	record_stream_set_sink(b->stream, fd);
	for (unsigned i = 0; i < 20; i++)
		cr_assert(record_stream_put(b->stream, &r));
	fixture_settle(b->loop);
	cr_assert_lt(metric(b, METRIC_RECORDS_SENT), 20);
	small.rlim_cur = RLIM_INFINITY;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	record_stream_drain(b->stream, 10000);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	b->len = (size_t)read(fd, b->text, sizeof(b->text));
	close(fd);
	while (next_record(b, &at, &r))
		cr_assert_eq(r.sequence, ++count);
	cr_assert_eq(count, 20);
	bench_stop(b);
	fixture_remove_folder(folder);
}

Test(record_stream, drains_what_is_queued_and_folded_at_the_end)
{
	struct bench *b = bench_start(100);
	struct record r;
	size_t at = 0;
	unsigned denials = 0;

	use_pipe(b);
	for (unsigned i = 0; i < 10; i++) {
		r = denial("ls_a", "a.example.org");
		cr_assert(record_stream_put(b->stream, &r));
	}
	record_stream_drain(b->stream, 5000);
	read_pipe(b);
	while (next_record(b, &at, &r))
		denials += r.count == 0 ? 1 : r.count;
	cr_assert_eq(denials, 10);
	bench_stop(b);
}

Test(record_stream, may_be_destroyed_with_records_in_every_place)
{
	size_t before = fixture_fd_count();
	struct bench *b = bench_start(100);
	struct record r = denial("ls_a", "a.example.org");

	use_pipe(b);
	record_stream_put(b->stream, &r);
	record_stream_put(b->stream, &r);
	fixture_settle(b->loop);
	record_stream_put(b->stream, &r);
	bench_stop(b);
	cr_assert_eq(fixture_fd_count(), before);
}
