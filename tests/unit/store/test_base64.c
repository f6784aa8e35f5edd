/* base64: RFC 4648 section 10, and what strictness refuses. */
#include "store/base64.h"

#include <criterion/criterion.h>
#include <string.h>

Test(base64, the_vectors_of_the_rfc_go_both_ways)
{
	static const char *const rows[][2] = { { "", "" },	       { "f", "Zg==" },	       { "fo", "Zm8=" },
					       { "foo", "Zm9v" },      { "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" },
					       { "foobar", "Zm9vYmFy" }, { "\xfb\xff\xbf", "+/+/" } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[16], bytes[16];
		size_t len;

		base64_encode(rows[i][0], strlen(rows[i][0]), text);
		cr_assert_str_eq(text, rows[i][1]);
		cr_assert(base64_decode(text_of(rows[i][1]), bytes, &len));
		cr_assert_eq(len, strlen(rows[i][0]));
		cr_assert_eq(memcmp(bytes, rows[i][0], len), 0);
	}
}

Test(base64, one_text_for_one_value)
{
	static const char *const bad[] = { "Z", "Zg", "Zg=", "Zg=A", "Zh==", "Zm9=", "====", "Z===", "Zm 9", "Zm9v\n", "Zg==Zg==", "-_-_" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char bytes[16];
		size_t len;

		cr_assert_not(base64_decode(text_of(bad[i]), bytes, &len), "%s", bad[i]);
	}
}
