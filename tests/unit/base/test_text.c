/* Text views: comparison, numbers of one spelling, hex, and escaping that no byte passes. */
#include "base/text.h"

#include <criterion/criterion.h>

Test(text, comparison_folds_ascii_letters_alone)
{
	cr_expect(text_equal(text_of("abc"), text_of("abc")));
	cr_expect(!text_equal(text_of("abc"), text_of("abC")));
	cr_expect(!text_equal(text_of("abc"), text_of("abcd")));
	cr_expect(text_equal((struct text){ NULL, 0 }, text_of("")));
	cr_expect(text_equal_nocase(text_of("AbZ-1"), text_of("aBz-1")));
	/* 0x20 apart, but no letters; and a Latin-1 letter, which is none here. */
	cr_expect(!text_equal_nocase(text_of("@"), text_of("`")));
	cr_expect(!text_equal_nocase(text_of("["), text_of("{")));
	cr_expect(!text_equal_nocase(text_of("\xc9"), text_of("\xe9")));
	cr_expect(!text_equal_nocase(text_of("ab"), text_of("abc")));
	cr_expect(text_is(text_of("deny"), "deny"));
	cr_expect(!text_is((struct text){ "deny\0x", 6 }, "deny"));
}

Test(text, a_number_has_one_spelling_and_a_maximum)
{
	static const char *const bad[] = { "",   "00",  "01",  "+1",  "-1", " 1", "1 ",
					   "0x1", "1a", "a",  "1.0", "18446744073709551616",
					   "99999999999999999999999" };
	uint64_t v = 77;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect(!text_to_u64(text_of(bad[i]), UINT64_MAX, &v), "%s", bad[i]);
	cr_expect(!text_to_u64(text_of("65536"), 65535, &v));
	cr_expect_eq(v, 77, "written only on success");
	cr_expect(text_to_u64(text_of("0"), 0, &v) && v == 0);
	cr_expect(text_to_u64(text_of("65535"), 65535, &v) && v == 65535);
	cr_expect(text_to_u64(text_of("18446744073709551615"), UINT64_MAX, &v) && v == UINT64_MAX);
}

Test(text, hex_is_lower_case_and_exactly_as_long_as_it_must_be)
{
	static const char *const bad[] = { "", "0", "00f", "00FF1", "00FF", "00f", "00fg", "00 f",
					   "00ff0", "00ff00" };
	uint8_t bytes[2] = { 9, 9 };
	char text[5];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect(!text_to_bytes_hex(text_of(bad[i]), bytes, 2), "%s", bad[i]);
	cr_expect(bytes[0] == 9 && bytes[1] == 9, "written only on success");
	cr_expect(text_to_bytes_hex(text_of("a0ff"), bytes, 2));
	cr_expect(bytes[0] == 0xa0 && bytes[1] == 0xff);
	text_from_bytes_hex(bytes, 2, text);
	cr_expect_str_eq(text, "a0ff");
}

Test(text, an_escaped_byte_is_printable_and_never_cut_in_the_middle)
{
	char all[256], out[1100];
	size_t len;

	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	len = text_escape((struct text){ all, 256 }, out, sizeof(out));
	cr_expect_eq(len, strlen(out));
	cr_expect_eq(len, 94 + 2 + 4 * (256 - 95));
	for (size_t i = 0; i < len; i++)
		cr_expect(out[i] >= 0x20 && out[i] < 0x7f);
	cr_expect_eq(strncmp(out, "\\x00\\x01", 8), 0);

	for (size_t cap = 1; cap <= 14; cap++) {
		static const char *const want[] = { "",    "a",      "a",	 "a",
						    "a",   "a\\x0a", "a\\x0a", "a\\x0a\\\\",
						    "a\\x0a\\\\b" };
		char *room = malloc(cap);

		text_escape(text_of("a\n\\b"), room, cap);
		cr_expect_str_eq(room, want[cap - 1 < 8 ? cap - 1 : 8], "cap %zu", cap);
		free(room);
	}
	cr_expect_eq(text_escape(text_of("a"), NULL, 0), 0);
}

Test(text, what_stands_before_a_stop_is_taken_with_the_stop)
{
	struct text rest = text_of("ab  c"), none = { NULL, 0 };

	cr_expect(text_is(text_take_until(&rest, ' '), "ab"));
	cr_expect(text_is(text_take_until(&rest, ' '), ""), "two stops have nothing between them");
	cr_expect(text_is(text_take_until(&rest, ' '), "c"), "the last part needs no stop");
	cr_expect_eq(rest.len, 0);
	cr_expect_eq(text_take_until(&rest, ' ').len, 0);
	cr_expect_eq(text_take_until(&none, ' ').len, 0);
	rest = text_of("ab ");
	cr_expect(text_is(text_take_until(&rest, ' '), "ab"));
	cr_expect_eq(rest.len, 0, "a stop at the end leaves nothing");
}
