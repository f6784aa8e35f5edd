/* The ring between daemon and sidecar: whole lines or none, across its end, through bad tails and heads, and out of another mapping. */
#include "control/record_ring.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crypto.h"

#define LANE RECORD_RING_LANE_MIN

static struct record_ring *make(unsigned lanes)
{
	struct record_ring *r;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(record_ring_create(lanes, 1, &r), ERR_OK);
	cr_assert_eq(record_ring_lane_size(r), LANE);
	return r;
}

static struct record_ring *other_side(const struct record_ring *r)
{
	struct record_ring *mapped;

	cr_assert_eq(record_ring_map(record_ring_fd(r), &mapped), ERR_OK);
	return mapped;
}

/* A line of `len` bytes that says its number. */
static size_t line_of(uint64_t number, size_t len, char *out)
{
	int head = snprintf(out, len, "{\"n\":%llu", (unsigned long long)number);

	memset(out + head, ' ', len - (size_t)head);
	memcpy(out + len - 2, "}\n", 2);
	return len;
}

static void check_line(const struct record_ring_line *line, uint64_t number, size_t len)
{
	char expected[RECORD_JSON_MAX];

	line_of(number, len, expected);
	cr_assert_eq(line->sequence, number);
	cr_assert_eq(line->len, len);
	cr_assert_eq(memcmp(line->text, expected, len), 0);
}

static size_t length_of(uint64_t number)
{
	return 64 + (size_t)(number * 1237 % (RECORD_JSON_MAX - 64));
}

Test(record_ring, gives_every_line_once_whole_and_in_order_however_often_it_wraps_around)
{
	struct record_ring *r = make(1), *m = other_side(r);
	struct record_ring_line line;
	char text[RECORD_JSON_MAX];
	uint64_t put = 0, taken = 0, at = 0;

	for (unsigned round = 0; round < 400; round++) {
		while (record_ring_put(r, 0, put, text, line_of(put, length_of(put), text)))
			put++;
		cr_assert_gt(put, taken);
		/* Not always all of it. */
		for (unsigned n = 0; n <= round % 9; n++) {
			uint64_t from = at;

			cr_assert_eq(record_ring_look(m, 0, &at, &line), RECORD_RING_LINE);
			check_line(&line, taken, length_of(taken));
			taken++;
			cr_assert(record_ring_take(m, 0, from, at));
		}
	}
	while (record_ring_look(m, 0, &at, &line) == RECORD_RING_LINE)
		check_line(&line, taken, length_of(taken)), taken++;
	cr_expect_eq(taken, put);
	cr_expect_gt(at, 10 * LANE);
	record_ring_destroy(m);
	record_ring_destroy(r);
}

Test(record_ring, lines_that_were_looked_at_and_not_taken_are_there_for_a_successor)
{
	struct record_ring *r = make(2), *first = other_side(r), *second;
	struct record_ring_line line;
	char text[64];
	uint64_t at = 0;

	for (uint64_t n = 0; n < 3; n++)
		cr_assert(record_ring_put(r, 1, n, text, line_of(n, 64, text)));
	cr_assert_eq(record_ring_look(first, 1, &at, &line), RECORD_RING_LINE);
	cr_assert(record_ring_take(first, 1, 0, at));
	cr_assert_eq(record_ring_look(first, 1, &at, &line), RECORD_RING_LINE);
	record_ring_destroy(first); /* killed before it could take the second */
	second = other_side(r);
	record_ring_destroy(r); /* and the daemon afterwards */
	at = record_ring_tail(second, 1);
	for (uint64_t n = 1; n < 3; n++) {
		cr_assert_eq(record_ring_look(second, 1, &at, &line), RECORD_RING_LINE);
		check_line(&line, n, 64);
	}
	cr_expect_eq(record_ring_look(second, 1, &at, &line), RECORD_RING_EMPTY);
	at = 0;
	cr_expect_eq(record_ring_look(second, 0, &at, &line), RECORD_RING_EMPTY, "lanes are apart");
	record_ring_destroy(second);
}

Test(record_ring, takes_no_line_without_room_and_room_comes_back_with_the_tail)
{
	struct record_ring *r = make(1), *m = other_side(r);
	char text[RECORD_JSON_MAX];
	uint64_t put = 0;

	cr_expect_not(record_ring_put(r, 0, 0, text, 0));
	cr_expect_not(record_ring_put(r, 0, 0, text, RECORD_JSON_MAX + 1));
	while (record_ring_put(r, 0, put, text, line_of(put, 1000, text)))
		put++;
	cr_expect_eq(put, LANE / record_ring_need(1000));
	cr_expect_lt(record_ring_room(r, 0), record_ring_need(1000));
	cr_assert(record_ring_take(m, 0, 0, record_ring_need(1000)));
	cr_expect(record_ring_put(r, 0, put, text, line_of(put, 1000, text)));
	cr_expect_not(record_ring_put(r, 0, put, text, line_of(put, 1000, text)));
	record_ring_destroy(m);
	record_ring_destroy(r);
}

Test(record_ring, a_tail_that_no_reader_left_costs_room_and_nothing_else)
{
	static const uint64_t tails[] = { 1, 8, LANE, 1u << 20, UINT64_MAX, UINT64_MAX / 2, (uint64_t)0 - LANE };
	char text[100];

	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		struct record_ring *r = make(1), *m = other_side(r);
		uint64_t put = 0;

		cr_assert(record_ring_take(m, 0, 0, tails[i]));
		while (put < 10000 && record_ring_put(r, 0, put, text, line_of(put, 100, text)))
			put++;
		cr_expect_leq(put, LANE / record_ring_need(100), "%zu", i);
		cr_expect_leq(record_ring_room(r, 0), LANE);
		record_ring_destroy(m);
		record_ring_destroy(r);
	}
}

/* Write over what the ring says, as a broken daemon could. */
static void scribble(const struct record_ring *r, uint64_t offset, const void *bytes, size_t len)
{
	cr_assert_eq(pwrite(record_ring_fd(r), bytes, len, (off_t)offset), (ssize_t)len);
}

#define DATA 4096 /* of one lane */

Test(record_ring, what_no_honest_daemon_wrote_is_damage_and_can_be_skipped)
{
	static const struct {
		uint64_t offset;
		size_t len;
		uint8_t bytes[8];
	} rows[] = {
		{ DATA + 8, 4, { 0xff, 0xff, 0xff, 0xff } }, /* a length */
		{ DATA + 8, 4, { 0 } },
		{ DATA + 8, 4, { 200 } },                    /* longer than what is there */
		{ DATA + 8, 4, { 99 } },                     /* no line ends there */
		{ DATA + 16, 1, { '[' } },
		{ DATA + 20, 1, { '\n' } },
		{ DATA + 20, 1, { 0x80 } },
		{ DATA + 20, 1, { 0 } },
		{ 64, 8, { 1 } },                            /* the head */
		{ 64, 8, { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
		{ 64, 8, { 0, 0, 0, 0, 1 } },
	};
	char text[100];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct record_ring *r = make(1), *m = other_side(r);
		struct record_ring_line line;
		uint64_t at = 0;

		cr_assert(record_ring_put(r, 0, 7, text, line_of(7, 100, text)));
		cr_assert_eq(record_ring_look(m, 0, &at, &line), RECORD_RING_LINE);
		at = 0;
		scribble(r, rows[i].offset, rows[i].bytes, rows[i].len);
		cr_expect_eq(record_ring_look(m, 0, &at, &line), RECORD_RING_DAMAGED, "row %zu", i);
		cr_expect_eq(at, 0);
		record_ring_skip(m, 0);
		if (rows[i].offset >= DATA) {
			at = record_ring_tail(m, 0);
			cr_expect_eq(record_ring_look(m, 0, &at, &line), RECORD_RING_EMPTY);
			cr_assert(record_ring_put(r, 0, 8, text, line_of(8, 100, text)));
			cr_expect_eq(record_ring_look(m, 0, &at, &line), RECORD_RING_LINE);
		}
		record_ring_destroy(m);
		record_ring_destroy(r);
	}
}

Test(record_ring, maps_nothing_but_a_sealed_ring_of_its_own_size)
{
	static const struct {
		uint64_t offset;
		uint8_t bytes[4];
	} rows[] = { { 0, { 1 } }, { 16, { 0 } }, { 16, { 2 } }, { 16, { 65 } }, { 20, { 0 } }, { 20, { 0, 0, 0, 0x7f } }, { 20, { 1 } } };
	struct record_ring *r, *m;
	int fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_expect_eq(record_ring_map(-1, &m), ERR_INVALID);
	cr_expect_eq(record_ring_map(fd, &m), ERR_INVALID, "empty, without seals");
	cr_assert_eq(ftruncate(fd, 1 << 20), 0);
	cr_expect_eq(record_ring_map(fd, &m), ERR_INVALID, "no seals");
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW), 0);
	cr_expect_eq(record_ring_map(fd, &m), ERR_INVALID, "no ring");
	close(fd);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		r = make(1);
		scribble(r, rows[i].offset, rows[i].bytes, sizeof(rows[i].bytes));
		cr_expect_eq(record_ring_map(record_ring_fd(r), &m), ERR_INVALID, "row %zu", i);
		record_ring_destroy(r);
	}
	cr_expect_eq(record_ring_create(0, 1 << 20, &r), ERR_INVALID);
	cr_expect_eq(record_ring_create(RECORD_RING_LANES_MAX + 1, 1 << 20, &r), ERR_INVALID);
}

Test(record_ring, two_readers_cannot_both_take)
{
	struct record_ring *r = make(1), *a = other_side(r), *b = other_side(r);
	char text[64];

	record_ring_set_reader(r, 1);
	cr_expect(record_ring_may_read(a, 1));
	record_ring_set_reader(r, 2);
	cr_expect_not(record_ring_may_read(a, 1));
	cr_assert(record_ring_put(r, 0, 1, text, line_of(1, 64, text)));
	cr_expect(record_ring_take(b, 0, 0, record_ring_need(64)));
	cr_expect_not(record_ring_take(a, 0, 0, record_ring_need(64)));
	cr_expect_eq(record_ring_tail(a, 0), record_ring_need(64));
	record_ring_destroy(a);
	record_ring_destroy(b);
	record_ring_destroy(r);
}

#define MANY 20000

static void *write_many(void *arg)
{
	struct record_ring *r = arg;
	char text[RECORD_JSON_MAX];

	for (uint64_t n = 0; n < MANY;)
		n += record_ring_put(r, 0, n, text, line_of(n, 64 + n * 37 % 900, text));
	return NULL;
}

Test(record_ring, a_reader_beside_the_writer_sees_whole_lines_only)
{
	struct record_ring *r = make(1), *m = other_side(r);
	struct record_ring_line line;
	uint64_t at = 0, seen = 0;
	pthread_t writer;

	cr_assert_eq(pthread_create(&writer, NULL, write_many, r), 0);
	while (seen < MANY) {
		uint64_t from = at;
		enum record_ring_seen what = record_ring_look(m, 0, &at, &line);

		cr_assert_neq(what, RECORD_RING_DAMAGED);
		if (what == RECORD_RING_EMPTY)
			continue;
		check_line(&line, seen, 64 + seen * 37 % 900);
		seen++;
		cr_assert(record_ring_take(m, 0, from, at));
	}
	pthread_join(writer, NULL);
	record_ring_destroy(m);
	record_ring_destroy(r);
}

Test(record_ring, survives_want_of_memory)
{
	struct record_ring *r = NULL;

	cr_assert_eq(crypto_init(), ERR_OK);
	for (uint64_t nth = 1; nth <= 2; nth++) {
		alloc_fail_at(nth);
		cr_expect_eq(record_ring_create(2, 1 << 20, &r), ERR_NO_MEMORY);
	}
	alloc_fail_at(0);
	r = make(1);
	alloc_fail_at(1);
	cr_expect_eq(record_ring_map(record_ring_fd(r), &(struct record_ring *){ NULL }), ERR_NO_MEMORY);
	alloc_fail_at(0);
	record_ring_destroy(r);
	record_ring_destroy(NULL);
}
