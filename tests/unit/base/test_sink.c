/* The writer: every field, every capacity, and the first overflow sticks. */
#include "base/sink.h"

#include <criterion/criterion.h>

static const uint8_t written[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
				   'a', 'b', 'c', 'n', '=', '7' };

static void write_all(struct sink *s)
{
	sink_u8(s, 1);
	sink_be16(s, 0x0203);
	sink_be24(s, 0x040506);
	sink_be32(s, 0x0708090a);
	sink_be64(s, 0x0b0c0d0e0f101112ULL);
	sink_bytes(s, "a", 1);
	sink_bytes(s, NULL, 0);
	sink_text(s, "bc");
	sink_format(s, "%s=%d", "n", 7);
}

Test(sink, an_exact_capacity_is_enough_and_one_byte_less_is_not)
{
	for (size_t capacity = 0; capacity <= sizeof(written) + 2; capacity++) {
		/* Exactly as much heap as promised, so that a byte too many is seen. */
		uint8_t *bytes = malloc(capacity);
		struct sink s = sink_over(bytes, capacity);

		write_all(&s);
		cr_expect_eq(sink_ok(&s), capacity >= sizeof(written), "%zu", capacity);
		cr_expect(s.len <= capacity);
		cr_expect_eq(memcmp(bytes, written, s.len), 0);
		if (sink_ok(&s))
			cr_expect_eq(s.len, sizeof(written));
		free(bytes);
	}
}

Test(sink, after_an_overflow_nothing_more_is_written)
{
	uint8_t bytes[4] = { 0 };
	struct sink s = sink_over(bytes, sizeof(bytes));

	sink_be64(&s, UINT64_MAX);
	sink_u8(&s, 1);
	sink_text(&s, "");
	cr_expect(!sink_ok(&s));
	cr_expect_eq(s.len, 0);
	cr_expect_eq(bytes[0], 0);
}

Test(sink, a_value_that_does_not_fit_its_field_is_an_overflow)
{
	uint8_t bytes[8];
	struct sink s = sink_over(bytes, sizeof(bytes));

	sink_be24(&s, 0xffffff);
	cr_expect(sink_ok(&s));
	sink_be24(&s, 0x1000000);
	cr_expect(!sink_ok(&s));
}

Test(sink, formatted_text_has_a_greatest_length)
{
	uint8_t bytes[SINK_FORMAT_MAX + 10];
	struct sink s = sink_over(bytes, sizeof(bytes));

	sink_format(&s, "%*d", SINK_FORMAT_MAX, 1);
	cr_expect(sink_ok(&s));
	cr_expect_eq(s.len, SINK_FORMAT_MAX);
	s = sink_over(bytes, sizeof(bytes));
	sink_format(&s, "%*d", SINK_FORMAT_MAX + 1, 1);
	cr_expect(!sink_ok(&s));
}
