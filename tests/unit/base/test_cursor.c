/* The reader: every field, every way of running out, and the first failure sticks. */
#include "base/cursor.h"

#include <criterion/criterion.h>

static const uint8_t message[] = { 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b,
				   0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15 };

Test(cursor, reads_big_endian_fields_in_order)
{
	struct cursor c = cursor_over(message, sizeof(message));

	cr_expect_eq(cursor_u8(&c), 0x01);
	cr_expect_eq(cursor_be16(&c), 0x0203);
	cr_expect_eq(cursor_be24(&c), 0x040506);
	cr_expect_eq(cursor_be32(&c), 0x0708090a);
	cr_expect_eq(cursor_be64(&c), 0x0b0c0d0e0f101112ULL);
	cr_expect_eq(cursor_bytes(&c, 2), message + 18);
	cursor_expect(&c, 0x15);
	cr_expect(cursor_ok(&c));
	cr_expect_eq(cursor_left(&c), 0);
}

/* Reads the whole message by steps; the status after it. */
static enum parsed read_all(struct cursor c)
{
	cursor_u8(&c);
	cursor_be16(&c);
	cursor_be24(&c);
	cursor_be32(&c);
	cursor_be64(&c);
	cursor_bytes(&c, 3);
	return c.status;
}

Test(cursor, every_prefix_wants_more_or_is_bad_as_it_was_told)
{
	for (size_t len = 0; len < sizeof(message); len++) {
		cr_expect_eq(read_all(cursor_over(message, len)), PARSED_MORE, "%zu", len);
		cr_expect_eq(read_all(cursor_over_whole(message, len)), PARSED_BAD, "%zu", len);
	}
	cr_expect_eq(read_all(cursor_over(message, sizeof(message))), PARSED_OK);
	cr_expect_eq(read_all(cursor_over(NULL, 0)), PARSED_MORE);
	cr_expect_eq(read_all(cursor_over_whole(NULL, 0)), PARSED_BAD);
}

Test(cursor, after_a_failure_reads_return_zeros_and_do_not_move)
{
	struct cursor c = cursor_over(message, 3);

	cursor_be32(&c);
	cr_expect_eq(c.status, PARSED_MORE);
	cr_expect_eq(c.at, message);
	cr_expect_eq(cursor_u8(&c), 0);
	cr_expect_null(cursor_bytes(&c, 0));
	cursor_fail(&c);
	cursor_expect(&c, 9);
	cr_expect_eq(c.status, PARSED_MORE, "the first failure is the one that stays");
	c = cursor_over(message, 3);
	cursor_expect(&c, 9);
	cr_expect_eq(c.status, PARSED_BAD);
	c = cursor_over(message, 0);
	cursor_expect(&c, 0);
	cr_expect_eq(c.status, PARSED_MORE, "a byte that is not there yet is not a wrong byte");
}

Test(cursor, a_sub_cursor_is_bounded_and_running_out_of_it_is_bad)
{
	struct cursor c = cursor_over(message, sizeof(message));
	struct cursor sub = cursor_sub(&c, 2);

	cr_expect_eq(cursor_left(&sub), 2);
	cr_expect_eq(cursor_u8(&c), 0x03);
	cr_expect_eq(cursor_be16(&sub), 0x0102);
	cr_expect(cursor_ok(&sub));
	cursor_u8(&sub);
	cr_expect_eq(sub.status, PARSED_BAD);
	cr_expect(cursor_ok(&c));

	sub = cursor_sub(&c, 100);
	cr_expect_eq(c.status, PARSED_MORE);
	cr_expect_eq(sub.status, PARSED_MORE);
	cr_expect_eq(cursor_left(&sub), 0);
	cr_expect_null(cursor_bytes(&sub, 1));
	cr_expect_eq(sub.status, PARSED_MORE);

	c = cursor_over(message, sizeof(message));
	cr_expect_null(cursor_bytes(&c, SIZE_MAX));
}
