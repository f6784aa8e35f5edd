/* Times: the source can be replaced, and text and milliseconds agree over the whole range. */
#include "base/clock.h"

#include <criterion/criterion.h>
#include <string.h>

static uint64_t fake_mono_ns(void)
{
	return 5000000123ULL;
}

static uint64_t fake_wall_ms(void)
{
	return 42;
}

Test(clock, tests_can_replace_the_source_and_put_the_real_one_back)
{
	static const struct clock_source fake = { fake_mono_ns, fake_wall_ms };
	uint64_t before = clock_mono_ns();

	cr_expect(before > 0 && clock_mono_ns() >= before);
	cr_expect(clock_wall_ms() > 1700000000000ULL);
	clock_use(&fake);
	cr_expect_eq(clock_mono_ns(), 5000000123ULL);
	cr_expect_eq(clock_mono_ms(), 5000);
	cr_expect_eq(clock_wall_ms(), 42);
	clock_use(NULL);
	cr_expect_neq(clock_wall_ms(), 42);
}

static const struct {
	uint64_t ms;
	const char *text;
} moments[] = {
	{ 0, "1970-01-01T00:00:00.000Z" },
	{ 951782399999ULL, "2000-02-28T23:59:59.999Z" },
	{ 951782400000ULL, "2000-02-29T00:00:00.000Z" },
	{ 951868800000ULL, "2000-03-01T00:00:00.000Z" },
	{ 1709164800000ULL, "2024-02-29T00:00:00.000Z" },
	{ 1796040000123ULL, "2026-11-30T12:00:00.123Z" },
	{ 4107542400000ULL, "2100-03-01T00:00:00.000Z" },
	{ 253402300799999ULL, "9999-12-31T23:59:59.999Z" },
};

Test(clock, known_moments_print_and_parse)
{
	for (size_t i = 0; i < ARRAY_LEN(moments); i++) {
		char text[25];
		uint64_t ms = 0;

		clock_print_wall(moments[i].ms, text);
		cr_expect_str_eq(text, moments[i].text);
		cr_expect(clock_parse_wall(text_of(text), &ms) && ms == moments[i].ms, "%s", text);
	}
}

Test(clock, every_day_follows_the_one_before)
{
	char before[25] = "", text[25];

	for (uint64_t day = 0; day <= 2932896; day += day < 60000 ? 1 : 997) {
		uint64_t ms;

		clock_print_wall(day * 86400000ULL, text);
		cr_assert(strcmp(before, text) < 0, "%s then %s", before, text);
		cr_assert(clock_parse_wall(text_of(text), &ms) && ms == day * 86400000ULL);
		memcpy(before, text, sizeof(text));
	}
	clock_print_wall(UINT64_MAX, text);
	cr_expect_str_eq(text, "9999-12-31T23:59:59.999Z");
}

Test(clock, fractions_are_optional_and_cut)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} rows[] = {
		{ "1970-01-01T00:00:01Z", 1000 },	  { "1970-01-01T00:00:01.5Z", 1500 },
		{ "1970-01-01T00:00:01.05Z", 1050 },	  { "1970-01-01T00:00:01.1239Z", 1123 },
		{ "1970-01-01T00:00:01.000000009Z", 1000 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t ms = 0;

		cr_expect(clock_parse_wall(text_of(rows[i].text), &ms), "%s", rows[i].text);
		cr_expect_eq(ms, rows[i].ms);
	}
}

Test(clock, nothing_else_is_a_time)
{
	static const char *const bad[] = {
		"", "Z", "2026", "2026-12-01", "2026-12-01T00:00:00", "2026-12-01T00:00:00+00:00",
		"2026-12-01t00:00:00Z", "2026-12-01T00:00:00z", "2026-12-01 00:00:00Z",
		"2026-12-01T00:00:00.Z", "2026-12-01T00:00:00.1234567890Z", "2026-12-01T00:00:00.1",
		"2026-12-01T00:00:00.1xZ", "2026-12-01T00:00:00Zx", "2026-12-01T00:00:00ZZ",
		"1969-12-31T23:59:59Z", "2026-00-01T00:00:00Z", "2026-13-01T00:00:00Z",
		"2026-11-31T00:00:00Z", "2026-02-29T00:00:00Z", "2100-02-29T00:00:00Z",
		"2026-12-00T00:00:00Z", "2026-12-01T24:00:00Z", "2026-12-01T00:60:00Z",
		"2026-12-01T00:00:60Z", "+026-12-01T00:00:00Z", " 2026-12-01T00:00:00Z",
		"12026-12-01T00:00:00Z", "2026-1-01T00:00:00Z",
	};
	static const char good[] = "2026-12-01T00:00:00.123Z";
	uint64_t ms = 77;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect(!clock_parse_wall(text_of(bad[i]), &ms), "%s", bad[i]);
	for (size_t len = 0; len < strlen(good); len++) {
		/* A block of exactly this size, so that a look beyond its end is seen. */
		char *copy = malloc(len);

		memcpy(copy, good, len);
		cr_expect(!clock_parse_wall((struct text){ copy, len }, &ms), "%zu", len);
		free(copy);
	}
	cr_expect_eq(ms, 77, "written only on success");
}
