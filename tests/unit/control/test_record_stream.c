/* Records from many threads into the ring: whole lines, numbers without holes but for losses, folding, and what goes first without room. */
#include <criterion/criterion.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "control/record_stream.h"

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

static const struct record_observer observer = { .proxy_uid = "px", .version = "0" };

/* A stream and, through a mapping of its own, the other side. */
struct bench {
	struct record_stream *stream;
	struct record_ring *ring;
	unsigned lanes;
	uint64_t at[8];
};

static void bench_start(struct bench *b, unsigned lanes)
{
	*b = (struct bench){ .lanes = lanes };
	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(record_stream_create(lanes, 1, &observer, &b->stream), ERR_OK);
	cr_assert_eq(record_ring_map(record_ring_fd(record_stream_ring(b->stream)), &b->ring), ERR_OK);
}

static void bench_stop(struct bench *b)
{
	record_stream_destroy(b->stream);
	record_ring_destroy(b->ring);
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

/* The next record of any lane; false: there is none. */
static bool next_record(struct bench *b, struct record *out)
{
	for (unsigned i = 0; i < b->lanes; i++) {
		struct record_ring_line line;
		uint64_t from = b->at[i];

		if (record_ring_look(b->ring, i, &b->at[i], &line) != RECORD_RING_LINE)
			continue;
		cr_assert(record_ring_take(b->ring, i, from, b->at[i]));
		cr_assert_eq(record_json_read(line.text, line.len, out), PARSED_OK, "%.*s", (int)line.len, line.text);
		cr_assert_eq(out->sequence, line.sequence);
		return true;
	}
	return false;
}

static void put(struct bench *b, const struct record *r)
{
	cr_assert(record_stream_put(b->stream, r));
}

#define THREADS 4
#define EACH 200

struct putter {
	struct bench *bench;
	unsigned worker;
};

static void *put_many(void *arg)
{
	const struct putter *p = arg;

	for (unsigned i = 0; i < EACH; i++) {
		struct record r = allowance("ls_a", "a.example.org");

		r.worker = (uint8_t)p->worker;
		while (!record_stream_has_room(p->bench->stream, p->worker, 1, 0))
			;
		put(p->bench, &r);
	}
	return NULL;
}

Test(record_stream, takes_from_many_threads_and_each_number_once)
{
	struct bench b;
	pthread_t threads[THREADS];
	struct putter putters[THREADS];
	bool seen[THREADS * EACH + 1] = { false };
	struct record r;

	bench_start(&b, THREADS);
	record_stream_set_required(b.stream, true);
	for (unsigned i = 0; i < THREADS; i++) {
		putters[i] = (struct putter){ &b, i };
		cr_assert_eq(pthread_create(&threads[i], NULL, put_many, &putters[i]), 0);
	}
	for (unsigned count = 0; count < THREADS * EACH;) {
		if (!next_record(&b, &r))
			continue;
		cr_assert(r.sequence >= 1 && r.sequence <= THREADS * EACH && !seen[r.sequence]);
		seen[r.sequence] = true;
		count++;
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	cr_expect_not(next_record(&b, &r));
	cr_expect_eq(record_ring_dropped(b.ring), 0);
	bench_stop(&b);
}

Test(record_stream, a_record_is_there_for_the_other_side_as_soon_as_put_returns)
{
	struct bench b;
	struct record r = denial("ls_a", "a.example.org"), again;

	bench_start(&b, 2);
	r.worker = 1;
	put(&b, &r);
	record_ring_destroy(b.ring);
	cr_assert_eq(record_ring_map(record_ring_fd(record_stream_ring(b.stream)), &b.ring), ERR_OK);
	cr_assert(next_record(&b, &again));
	cr_expect_str_eq(again.lease, "ls_a");
	bench_stop(&b);
}

/* From here on any system call but the last one kills. */
static void forbid_system_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { .len = ARRAY_LEN(filter), .filter = filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(2);
}

Test(record_stream, a_record_costs_no_system_call)
{
	struct bench b;
	struct record r = allowance("ls_a", "a.example.org"), no = denial("ls_a", "a.example.org");
	unsigned count = 0;
	int status;
	pid_t child;

	clock_use(&fake);
	bench_start(&b, 1);
	put(&b, &no);
	put(&b, &no); /* the memory that this fold needs is there */
	child = fork();
	if (child == 0) {
		bool ok = true;

		forbid_system_calls();
		for (unsigned i = 0; i < 30; i++) {
			r.event = i % 2 == 0 ? RECORD_DECISION : RECORD_CLOSE;
			ok = record_stream_put(b.stream, &r) && record_stream_put(b.stream, &no) && record_stream_has_room(b.stream, 0, 1, 0) && ok;
			record_stream_tick(b.stream, 0);
		}
		syscall(SYS_exit_group, ok ? 0 : 1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
	/* And what a process wrote that is gone is there. */
	while (next_record(&b, &r))
		count++;
	cr_expect_eq(count, 31);
	bench_stop(&b);
}

Test(record_stream, drops_allowed_ones_first_and_numbers_show_the_gap)
{
	struct bench b;
	struct record r = allowance("ls_a", "a.example.org"), last = { 0 };
	uint64_t allowed = 0, denied = 0, seen = 0, lost;
	char host[32];

	bench_start(&b, 1);
	while (record_stream_put(b.stream, &r))
		allowed++;
	cr_expect_gt(allowed, 10);
	r.event = RECORD_CLOSE;
	cr_expect_not(record_stream_put(b.stream, &r));
	do {
		snprintf(host, sizeof(host), "h%u.example.org", (unsigned)denied++);
		r = denial("ls_a", host);
	} while (record_stream_put(b.stream, &r));
	cr_expect_gt(denied, allowed / 4, "a quarter was kept for them");
	lost = record_ring_dropped(b.ring);
	cr_expect_eq(lost, 3);
	while (next_record(&b, &last))
		seen++;
	cr_expect_eq(seen, allowed + denied - 1);
	r = allowance("ls_a", "last.example.org");
	put(&b, &r);
	cr_assert(next_record(&b, &last));
	cr_expect_eq(last.sequence, seen + 1 + lost);
	bench_stop(&b);
}

Test(record_stream, when_audit_is_required_nothing_is_dropped_for_what_it_is)
{
	struct bench b;
	struct record r = allowance("ls_a", "a.example.org");
	size_t some = 0, all = 0;

	bench_start(&b, 1);
	while (record_stream_put(b.stream, &r))
		some++;
	record_stream_set_required(b.stream, true);
	while (record_stream_put(b.stream, &r))
		all++;
	cr_expect_gt(all, some / 4);
	bench_stop(&b);
}

Test(record_stream, promises_room_for_records_of_any_length_and_for_its_folds)
{
	struct bench b;
	struct record r = denial("ls_a", "a.example.org");
	size_t most = RECORD_RING_LANE_MIN / record_ring_need(RECORD_JSON_MAX);

	bench_start(&b, 1);
	cr_expect(record_stream_has_room(b.stream, 0, most, 0));
	cr_expect_not(record_stream_has_room(b.stream, 0, most + 1, 0));
	cr_expect(record_stream_has_room(b.stream, 0, most - 1, record_ring_need(RECORD_JSON_MAX)));
	cr_expect_not(record_stream_has_room(b.stream, 0, most, record_ring_need(RECORD_JSON_MAX)));
	cr_expect_not(record_stream_has_room(b.stream, 0, 0, RECORD_RING_LANE_MIN + 1));
	put(&b, &r);
	cr_expect(record_stream_has_room(b.stream, 0, most, 0), "it was far from the longest");
	put(&b, &r); /* a fold, which needs a record later */
	cr_expect_not(record_stream_has_room(b.stream, 0, most, 0));
	cr_expect(record_stream_has_room(b.stream, 0, most - 1, 0));
	bench_stop(&b);
}

Test(record_stream, folds_repeated_denials_and_the_counts_add_up)
{
	struct bench b;
	struct record r;
	unsigned denials = 0, lines = 0;

	clock_use(&fake);
	bench_start(&b, 1);
	for (unsigned i = 0; i < 50; i++) {
		now_ms += 100;
		r = denial("ls_a", "a.example.org");
		put(&b, &r);
		/* Each differs in one respect and folds only with its like. */
		r = denial("ls_b", "a.example.org");
		put(&b, &r);
		r = denial("ls_a", "b.example.org");
		put(&b, &r);
		r = denial("ls_a", "a.example.org");
		r.target.port = 80;
		put(&b, &r);
		r = denial("ls_a", "a.example.org");
		r.verdict.reason = REASON_RULE_DENY;
		put(&b, &r);
		r = denial("ls_a", "192.0.2.1");
		put(&b, &r);
	}
	while (next_record(&b, &r)) {
		cr_assert_leq(r.count, 1, "the first of each at once");
		lines++;
	}
	cr_assert_eq(lines, 6);
	cr_assert_eq(record_ring_repeats(b.ring), 6 * 49, "what stands in no record is told beside them");
	now_ms += 10000;
	/* The next denial ends what is over, and begins anew. */
	r = denial("ls_a", "a.example.org");
	put(&b, &r);
	lines = 0;
	while (next_record(&b, &r)) {
		lines++;
		denials += r.count == 0 ? 1 : r.count;
		if (r.count > 1) {
			cr_assert_eq(r.count, 49);
			cr_assert_eq(r.wall_ms - r.first_wall_ms, 4800);
		}
	}
	cr_assert_eq(lines, 7);
	cr_assert_eq(denials, 6 * 49 + 1);
	record_stream_tick(b.stream, 0);
	cr_assert_eq(record_ring_repeats(b.ring), 0);
	bench_stop(&b);
}

Test(record_stream, never_folds_what_was_allowed_or_ended)
{
	struct bench b;
	struct record r;
	unsigned lines = 0;

	bench_start(&b, 1);
	for (unsigned i = 0; i < 10; i++) {
		r = allowance("ls_a", "a.example.org");
		put(&b, &r);
		r.event = RECORD_CLOSE;
		put(&b, &r);
		r = denial("ls_a", "a.example.org");
		r.event = RECORD_CUT;
		put(&b, &r);
	}
	while (next_record(&b, &r))
		lines++;
	cr_assert_eq(lines, 30);
	bench_stop(&b);
}

Test(record_stream, a_tick_writes_folds_that_are_over)
{
	struct bench b;
	struct record r = denial("ls_a", "a.example.org");

	clock_use(&fake);
	bench_start(&b, 2);
	for (unsigned i = 0; i < 3; i++)
		put(&b, &r);
	cr_assert(next_record(&b, &r));
	record_stream_tick(b.stream, 0);
	cr_assert_not(next_record(&b, &r));
	now_ms += 10000;
	record_stream_tick(b.stream, 1);
	cr_assert_not(next_record(&b, &r), "of another worker");
	record_stream_tick(b.stream, 0);
	cr_assert(next_record(&b, &r));
	cr_expect_eq(r.count, 2);
	bench_stop(&b);
}

Test(record_stream, writes_what_is_folded_at_the_end)
{
	struct bench b;
	struct record r = denial("ls_a", "a.example.org");
	unsigned denials = 0;

	bench_start(&b, 1);
	for (unsigned i = 0; i < 10; i++)
		put(&b, &r);
	record_stream_destroy(b.stream);
	while (next_record(&b, &r))
		denials += r.count == 0 ? 1 : r.count;
	cr_expect_eq(denials, 10);
	cr_expect_eq(record_ring_repeats(b.ring), 0);
	record_ring_destroy(b.ring);
}

Test(record_stream, without_memory_for_a_fold_each_denial_is_a_record)
{
	struct bench b;
	struct record r = denial("ls_a", "a.example.org");
	unsigned lines = 0;

	bench_start(&b, 1);
	put(&b, &r);
	for (unsigned i = 0; i < 5; i++) {
		alloc_fail_at(1);
		put(&b, &r);
	}
	alloc_fail_at(0);
	while (next_record(&b, &r))
		lines += r.count <= 1;
	cr_expect_eq(lines, 6);
	bench_stop(&b);
}

Test(record_stream, survives_want_of_memory_at_the_start)
{
	struct record_stream *s;

	cr_assert_eq(crypto_init(), ERR_OK);
	for (uint64_t nth = 1; nth <= 4; nth++) {
		alloc_fail_at(nth);
		cr_expect_eq(record_stream_create(2, 1, &observer, &s), ERR_NO_MEMORY, "%u", (unsigned)nth);
	}
	alloc_fail_at(0);
	record_stream_destroy(NULL);
}
