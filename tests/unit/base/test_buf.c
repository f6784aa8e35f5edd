/* The byte queue: order, maximum, sliding, and what a failed allocation leaves behind. */
#include "base/buf.h"

#include <criterion/criterion.h>

#include "base/alloc.h"

Test(buf, holds_up_to_its_maximum_and_not_a_byte_more)
{
	static const uint8_t bytes[1001];

	for (size_t max = 1; max <= 1000; max += 111) {
		struct buf b;

		buf_init(&b, max);
		cr_expect_null(buf_data(&b));
		cr_expect_eq(buf_append(&b, bytes, max + 1), ERR_LIMIT);
		cr_expect_eq(b.len, 0);
		cr_expect_eq(buf_append(&b, bytes, max), ERR_OK);
		cr_expect_eq(buf_room(&b), 0);
		cr_expect_eq(buf_append(&b, bytes, 1), ERR_LIMIT);
		cr_expect_eq(buf_append(&b, NULL, 0), ERR_OK);
		cr_expect_null(buf_reserve(&b, 1));
		cr_expect(b.capacity <= max);
		buf_finish(&b);
	}
}

Test(buf, bytes_leave_in_the_order_in_which_they_came)
{
	struct buf b;
	uint8_t next_in = 0, next_out = 0;
	uint32_t random = 1;

	buf_init(&b, 700);
	for (int turn = 0; turn < 5000; turn++) {
		size_t want, drop;
		uint8_t *room;

		random = random * 1103515245u + 12345u;
		want = (random >> 16) % 90;
		drop = (random >> 8) % 90;
		if (want <= buf_room(&b)) {
			room = buf_reserve(&b, want);
			cr_assert_not_null(room);
			for (size_t i = 0; i < want; i++)
				room[i] = next_in++;
			buf_commit(&b, want);
		}
		for (size_t i = 0; i < drop && i < b.len; i++)
			cr_assert_eq(buf_data(&b)[i], next_out++);
		buf_consume(&b, drop);
		cr_assert(b.len <= 700 && b.capacity <= 700);
	}
	cr_expect(next_in != 0 || next_out != 0);
	buf_finish(&b);
}

Test(buf, gives_its_memory_back_only_when_empty)
{
	struct buf b;

	buf_init(&b, 10);
	cr_assert_eq(buf_append(&b, "abc", 3), ERR_OK);
	buf_trim(&b);
	cr_expect_eq(memcmp(buf_data(&b), "abc", 3), 0);
	buf_consume(&b, 99);
	buf_trim(&b);
	cr_expect_null(b.bytes);
	cr_expect_eq(b.max, 10);
	cr_assert_eq(buf_append(&b, "d", 1), ERR_OK);
	cr_expect_eq(buf_data(&b)[0], 'd');
	buf_finish(&b);
}

Test(buf, a_failed_allocation_loses_nothing)
{
	static const char more[500];
	struct buf b;

	buf_init(&b, 1000);
	alloc_fail_at(1);
	cr_expect_eq(buf_append(&b, "abc", 3), ERR_NO_MEMORY);
	cr_assert_eq(buf_append(&b, "abc", 3), ERR_OK);
	alloc_fail_at(1);
	cr_expect_null(buf_reserve(&b, sizeof(more)));
	cr_expect_eq(b.len, 3);
	cr_expect_eq(memcmp(buf_data(&b), "abc", 3), 0);
	cr_expect_eq(buf_append(&b, more, sizeof(more)), ERR_OK);
	buf_finish(&b);
}
