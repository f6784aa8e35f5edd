/* JSON output: every byte escaped as a program can read it back. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "cli/print.h"
#include "fixture.h"

static struct text given;

static int print_given(struct cli *cli)
{
	print_json_text(given);
	return 0;
}

static int print_members(struct cli *cli)
{
	print_json_member("a", "x\"y", true);
	print_json_member("b", NULL, false);
	print_json_number("c", UINT64_MAX, false);
	print_json_bool("d", false, false);
	return 0;
}

Test(print, escapes_every_byte_outside_printable_ascii)
{
	static struct fixture_said said;
	char all[256], want[2048] = "\"";

	for (unsigned i = 0; i < 256; i++) {
		char one[8];

		all[i] = (char)i;
		if (i == '"' || i == '\\')
			snprintf(one, sizeof(one), "\\%c", (int)i);
		else if (i < 0x20 || i > 0x7e)
			snprintf(one, sizeof(one), "\\u%04x", i);
		else
			snprintf(one, sizeof(one), "%c", (int)i);
		strcat(want, one);
	}
	strcat(want, "\"");
	given = (struct text){ all, sizeof(all) };
	fixture_run(print_given, false, NULL, &said, "test", NULL);
	cr_assert_str_eq(said.out, want);
	fixture_run(print_members, false, NULL, &said, "test", NULL);
	cr_assert_str_eq(said.out, "\"a\":\"x\\\"y\",\"b\":null,\"c\":18446744073709551615,\"d\":false");
}
