/* Record ids: time-ordered, of one length, all random bits used. */
#include "decision/record.h"

#include <string.h>

#include <criterion/criterion.h>

#include "base/attr.h"

Test(record, ids_are_what_the_alphabet_makes_of_time_and_randomness)
{
	static const struct {
		uint64_t wall_ms;
		uint8_t random[10];
		const char *id;
	} rows[] = {
		{ 0, { 0 }, "00000000000000000000000000" },
		{ 1, { 0 }, "00000000010000000000000000" },
		{ 0, { 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 }, "00000000000000000000000001" },
		{ 0, { 0x80 }, "0000000000G000000000000000" },
		{ 0xffffffffffff,
		  { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 },
		  "7ZZZZZZZZZZZZZZZZZZZZZZZZZ" },
		/* 48 bits of time are enough until the year 10889; more are cut, not spilled. */
		{ 0x1000000000001, { 0 }, "00000000010000000000000000" },
		{ 1469918176385, { 0 }, "01ARYZ6S410000000000000000" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char id[RECORD_ID_LEN + 1];

		record_make_id(rows[i].wall_ms, rows[i].random, id);
		cr_expect_str_eq(id, rows[i].id);
	}
}

Test(record, ids_of_later_milliseconds_sort_later)
{
	static const uint8_t high[10] = { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 },
			     low[10] = { 0 };
	char before[RECORD_ID_LEN + 1], after[RECORD_ID_LEN + 1];

	for (uint64_t ms = 1796051201456; ms < 1796051201456 + 200; ms++) {
		record_make_id(ms, high, before);
		record_make_id(ms + 1, low, after);
		cr_assert_lt(strcmp(before, after), 0);
	}
}

Test(record, every_random_bit_changes_the_id)
{
	char zero[RECORD_ID_LEN + 1], id[RECORD_ID_LEN + 1];

	record_make_id(5, (const uint8_t[10]){ 0 }, zero);
	for (unsigned bit = 0; bit < 80; bit++) {
		uint8_t random[10] = { 0 };

		random[bit / 8] = (uint8_t)(1 << (bit % 8));
		record_make_id(5, random, id);
		cr_expect_neq(strcmp(id, zero), 0);
		cr_expect_eq(memcmp(id, zero, 10), 0);
	}
}
