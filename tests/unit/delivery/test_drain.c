/* Rings into file and spool: everything once, in order, and gone from the ring only afterwards, whoever dies in between. */
#include "delivery/drain.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "fixture.h"
#include "records_fixture.h"

#define LEN 100

struct bench {
	struct loop *loop;
	struct record_ring *daemon;
	struct drain *drain;
	struct drain_options options;
	char folder[64], records[96];
};

static void bench_start(struct bench *b, unsigned lanes)
{
	*b = (struct bench){ .loop = loop_create() };
	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(crypto_init(), ERR_OK);
	fixture_make_folder(b->folder);
	snprintf(b->records, sizeof(b->records), "%s/records", b->folder);
	b->options = (struct drain_options){ .records = b->records, .proxy = "px", .state = b->folder, .spool_bytes_max = 1 << 20 };
	cr_assert_eq(record_ring_create(lanes, 1, &b->daemon), ERR_OK);
	record_ring_set_reader(b->daemon, 1);
}

static void bench_stop(struct bench *b)
{
	drain_close(b->drain);
	record_ring_destroy(b->daemon);
	loop_destroy(b->loop);
	fixture_remove_folder(b->folder);
}

static void attach(struct bench *b, uint64_t number)
{
	struct record_ring *ring;

	cr_assert_eq(record_ring_map(record_ring_fd(b->daemon), &ring), ERR_OK);
	cr_assert_eq(drain_attach(b->drain, ring, number), ERR_OK);
}

static void open_drain(struct bench *b)
{
	cr_assert_eq(drain_open(b->loop, &b->options, &b->drain), ERR_OK);
	attach(b, 1);
}

static void put(struct bench *b, unsigned lane, uint64_t number)
{
	cr_assert(record_ring_put(b->daemon, lane, number, records_line(number, LEN).at, LEN));
}

/* Until `count` lines are in the file, or for a while. */
static void turn(struct bench *b, size_t count)
{
	for (unsigned i = 0; i < 500; i++) {
		const char *text = fixture_read(b->records);

		if (text != NULL && strlen(text) >= count * LEN)
			break;
		loop_turn(b->loop, 5);
	}
	loop_turn(b->loop, 0);
}

static void expect_file(const struct bench *b, uint64_t from, uint64_t to)
{
	const char *text = fixture_read(b->records);

	cr_assert_not_null(text);
	cr_assert_eq(strlen(text), (to - from + 1) * LEN, "%zu lines", strlen(text) / LEN);
	for (uint64_t n = from; n <= to; n++)
		cr_assert_eq(memcmp(text + (n - from) * LEN, records_line(n, LEN).at, LEN), 0, "line %u", (unsigned)n);
}

static struct drain_counts counts(const struct bench *b)
{
	struct drain_counts c;

	drain_count(b->drain, &c);
	return c;
}

static bool is_empty(const struct bench *b)
{
	return record_ring_room(b->daemon, 0) == record_ring_lane_size(b->daemon);
}

Test(drain, writes_the_lines_of_all_lanes_in_the_order_of_their_numbers)
{
	struct bench b;

	bench_start(&b, 3);
	for (uint64_t n = 1; n <= 300; n++)
		put(&b, (unsigned)(n * 7 / 5 % 3), n);
	open_drain(&b);
	turn(&b, 300);
	expect_file(&b, 1, 300);
	cr_expect(is_empty(&b));
	cr_expect_eq(counts(&b).sent, 300);
	for (uint64_t n = 301; n <= 320; n++)
		put(&b, 0, n);
	turn(&b, 320);
	expect_file(&b, 1, 320);
	bench_stop(&b);
}

Test(drain, nothing_leaves_the_ring_before_the_file_has_it)
{
	struct bench b;
	char deep[128];

	bench_start(&b, 1);
	snprintf(deep, sizeof(deep), "%s/later", b.folder);
	snprintf(b.records, sizeof(b.records), "%s/later/records", b.folder);
	for (uint64_t n = 1; n <= 10; n++)
		put(&b, 0, n);
	open_drain(&b);
	for (unsigned i = 0; i < 20; i++)
		loop_turn(b.loop, 10);
	cr_expect_eq(drain_failures(b.drain), 1);
	cr_expect_eq(record_ring_tail(b.daemon, 0), 0, "a successor would find all of them");
	cr_assert_eq(mkdir(deep, 0700), 0);
	turn(&b, 10);
	expect_file(&b, 1, 10);
	cr_expect(is_empty(&b));
	bench_stop(&b);
}

Test(drain, nothing_leaves_the_ring_before_the_spool_has_it)
{
	struct bench b;
	struct spool *spool;
	struct spool_batch batch;

	bench_start(&b, 1);
	b.options.decisions = "http://127.0.0.1:1";
	b.options.records = NULL;
	b.options.is_audit_required = true;
	b.options.spool_bytes_max = 3 * (SPOOL_FRAME_HEAD + LEN);
	for (uint64_t n = 1; n <= 3; n++)
		put(&b, 0, n);
	open_drain(&b);
	for (unsigned i = 0; i < 10; i++)
		loop_turn(b.loop, 10);
	cr_expect(is_empty(&b));
	for (uint64_t n = 4; n <= 6; n++)
		put(&b, 0, n);
	for (unsigned i = 0; i < 20; i++)
		loop_turn(b.loop, 10);
	cr_expect_eq(record_ring_tail(b.daemon, 0), 3 * record_ring_need(LEN), "the spool is full and may not drop");
	cr_expect_eq(counts(&b).dropped, 0);
	/* Killed; its successor has room. */
	drain_close(b.drain);
	b.options.spool_bytes_max = 1 << 20;
	open_drain(&b);
	for (unsigned i = 0; i < 10; i++)
		loop_turn(b.loop, 10);
	cr_expect(is_empty(&b));
	drain_close(b.drain);
	b.drain = NULL;
	cr_assert_eq(spool_open(b.folder, 1 << 20, &spool), ERR_OK);
	cr_assert_eq(spool_load(spool, &batch), ERR_OK);
	cr_expect(records_batch_is(&batch, 1, 3, LEN));
	spool_batch_finish(&batch);
	cr_assert_eq(spool_take(spool), ERR_OK);
	cr_assert_eq(spool_load(spool, &batch), ERR_OK);
	cr_expect(records_batch_is(&batch, 4, 6, LEN));
	spool_batch_finish(&batch);
	spool_close(spool);
	bench_stop(&b);
}

#define TAIL_OFFSET 128 /* of the first lane, in the ring's page */

/* As if whoever stored the lines had died before it could say so. */
static void forget_tail(const struct bench *b)
{
	uint64_t zero = 0;

	cr_assert_eq(pwrite(record_ring_fd(b->daemon), &zero, sizeof(zero), TAIL_OFFSET), (ssize_t)sizeof(zero));
}

Test(drain, a_successor_stores_nothing_twice_of_what_was_stored_and_not_taken)
{
	struct bench b;
	struct spool *spool;
	struct spool_counts c;

	bench_start(&b, 1);
	b.options.decisions = "http://127.0.0.1:1";
	for (uint64_t n = 1; n <= 20; n++)
		put(&b, 0, n);
	open_drain(&b);
	turn(&b, 20);
	drain_close(b.drain);
	forget_tail(&b);
	cr_expect_not(is_empty(&b));
	for (uint64_t n = 21; n <= 25; n++)
		put(&b, 0, n);
	open_drain(&b);
	turn(&b, 25);
	expect_file(&b, 1, 25);
	cr_expect(is_empty(&b));
	drain_close(b.drain);
	b.drain = NULL;
	cr_assert_eq(spool_open(b.folder, 1 << 20, &spool), ERR_OK);
	spool_count(spool, &c);
	cr_expect_eq(c.records, 25);
	spool_close(spool);
	bench_stop(&b);
}

Test(drain, the_ring_of_a_daemon_that_is_gone_is_read_out_and_its_successors_after_it)
{
	struct bench b;
	struct record_ring *dead;

	bench_start(&b, 1);
	open_drain(&b);
	for (uint64_t n = 1; n <= 5; n++)
		put(&b, 0, n);
	record_ring_count_dropped(b.daemon, 0);
	record_ring_set_repeats(b.daemon, 0, 3);
	dead = b.daemon;
	cr_assert_eq(record_ring_create(1, 1, &b.daemon), ERR_OK);
	record_ring_set_reader(b.daemon, 1);
	drain_detach(b.drain);
	record_ring_destroy(dead);
	for (uint64_t n = 6; n <= 8; n++)
		put(&b, 0, n);
	attach(&b, 1);
	turn(&b, 8);
	expect_file(&b, 1, 8);
	for (unsigned i = 0; i < 20; i++)
		loop_turn(b.loop, 5);
	cr_expect_eq(counts(&b).dropped, 1);
	cr_expect_eq(counts(&b).repeats_lost, 3);
	bench_stop(&b);
}

Test(drain, daemons_that_die_while_nothing_can_be_written_cost_no_more_than_some_rings)
{
	struct bench b;
	size_t before;

	bench_start(&b, 1);
	snprintf(b.records, sizeof(b.records), "%s/never/records", b.folder);
	open_drain(&b);
	before = fixture_fd_count();
	for (uint64_t n = 1; n <= 12; n++) {
		put(&b, 0, n);
		put(&b, 0, n);
		for (unsigned i = 0; i < 3; i++)
			loop_turn(b.loop, 50);
		record_ring_destroy(b.daemon);
		cr_assert_eq(record_ring_create(1, 1, &b.daemon), ERR_OK);
		record_ring_set_reader(b.daemon, 1);
		attach(&b, 1);
	}
	cr_expect_eq(counts(&b).dropped, 2 * 5);
	cr_expect_eq(fixture_fd_count(), before);
	bench_stop(&b);
}

Test(drain, who_is_replaced_reads_no_more)
{
	struct bench b;

	bench_start(&b, 1);
	open_drain(&b);
	put(&b, 0, 1);
	turn(&b, 1);
	record_ring_set_reader(b.daemon, 2);
	put(&b, 0, 2);
	for (unsigned i = 0; i < 20; i++)
		loop_turn(b.loop, 5);
	expect_file(&b, 1, 1);
	/* Nor does it store what it had in hand. */
	cr_assert_eq(drain_failures(b.drain), 0);
	/* Connected again, it may. */
	attach(&b, 2);
	turn(&b, 2);
	expect_file(&b, 1, 2);
	bench_stop(&b);
}

Test(drain, a_connection_that_comes_back_goes_on_in_the_same_ring)
{
	struct bench b;

	bench_start(&b, 1);
	open_drain(&b);
	put(&b, 0, 1);
	drain_detach(b.drain);
	attach(&b, 1);
	put(&b, 0, 2);
	turn(&b, 2);
	expect_file(&b, 1, 2);
	cr_expect_not(drain_is_daemon_draining(b.drain));
	record_ring_set_draining(b.daemon);
	cr_expect(drain_is_daemon_draining(b.drain));
	bench_stop(&b);
}

Test(drain, damage_costs_what_the_lane_holds_and_is_counted)
{
	struct bench b;
	uint32_t length = 0xffff;

	bench_start(&b, 1);
	put(&b, 0, 1);
	put(&b, 0, 2);
	put(&b, 0, 3);
	cr_assert_eq(pwrite(record_ring_fd(b.daemon), &length, sizeof(length), 4096 + (off_t)record_ring_need(LEN) + 8), (ssize_t)sizeof(length));
	open_drain(&b);
	turn(&b, 1);
	for (unsigned i = 0; i < 20; i++)
		loop_turn(b.loop, 5);
	put(&b, 0, 4);
	turn(&b, 2);
	cr_expect_eq(counts(&b).dropped, 1);
	cr_expect_eq(memcmp(fixture_read(b.records) + LEN, records_line(4, LEN).at, LEN), 0);
	bench_stop(&b);
}

Test(drain, without_any_place_to_go_records_are_dropped_and_counted)
{
	struct bench b;

	bench_start(&b, 1);
	b.options.records = NULL;
	for (uint64_t n = 1; n <= 5; n++)
		put(&b, 0, n);
	open_drain(&b);
	for (unsigned i = 0; i < 20 && !is_empty(&b); i++)
		loop_turn(b.loop, 10);
	cr_expect(is_empty(&b));
	cr_expect_eq(counts(&b).dropped, 5);
	/* A reload gives it one. */
	b.options.records = b.records;
	drain_set_options(b.drain, &b.options);
	put(&b, 0, 6);
	turn(&b, 1);
	expect_file(&b, 6, 6);
	bench_stop(&b);
}

Test(drain, what_is_in_the_ring_is_written_at_the_end)
{
	struct bench b;
	size_t before = fixture_fd_count();

	bench_start(&b, 1);
	open_drain(&b);
	for (uint64_t n = 1; n <= 400; n++)
		put(&b, 0, n);
	drain_close(b.drain);
	b.drain = NULL;
	expect_file(&b, 1, 400);
	bench_stop(&b);
	cr_expect_eq(fixture_fd_count(), before);
}

Test(drain, survives_want_of_memory)
{
	struct bench b;

	bench_start(&b, 2);
	b.options.decisions = "http://127.0.0.1:1";
	for (uint64_t nth = 1; nth <= 12; nth++) {
		struct record_ring *ring;

		alloc_fail_at(nth);
		if (drain_open(b.loop, &b.options, &b.drain) != ERR_OK)
			continue;
		alloc_fail_at(0);
		cr_assert_eq(record_ring_map(record_ring_fd(b.daemon), &ring), ERR_OK);
		alloc_fail_at(1 + nth % 2);
		cr_expect_eq(drain_attach(b.drain, ring, 1), ERR_NO_MEMORY);
		alloc_fail_at(0);
		drain_close(b.drain);
		b.drain = NULL;
	}
	alloc_fail_at(0);
	bench_stop(&b);
}
