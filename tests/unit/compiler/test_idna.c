#include <criterion/criterion.h>
#include <string.h>

#include "compiler/idna.h"

Test(idna, u_labels_become_a_labels_and_nothing_is_mapped)
{
	static const struct {
		const char *name, *ascii;
	} rows[] = {
		{ "b\xc3\xbc" "cher.example", "xn--bcher-kva.example" },
		{ "\xd0\xbf\xd1\x80\xd0\xb8\xd0\xbc\xd0\xb5\xd1\x80.example", "xn--e1afmkfd.example" },
		{ "stra\xc3\x9f" "e.example", "xn--strae-oqa.example" },
		{ "B\xc3\xbc" "cher.example", NULL },
		{ "bu\xcc\x88" "cher.example", NULL },
		{ "a\xef\xbc\x8e" "b.example", NULL },
		{ "\xef\xbd\x81.example", NULL },
		{ "a\xc2\xad" "b.example", NULL },
		{ "\xc3(.example", NULL },
		{ "a\xe2\x80\x8d" "b.example", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char ascii[DNAME_MAX + 2] = "unset";
		const char *reason = NULL;
		enum err err = idna_to_ascii(text_of(rows[i].name), ascii, &reason);

		if (rows[i].ascii == NULL) {
			cr_assert_eq(err, ERR_INVALID, "row %zu gave %s", i, ascii);
			cr_assert_not_null(reason);
			cr_assert_str_eq(ascii, "unset");
		} else {
			cr_assert_eq(err, ERR_OK, "row %zu", i);
			cr_assert_str_eq(ascii, rows[i].ascii);
		}
	}
}

Test(idna, what_cannot_fit_refuses)
{
	char name[1500], ascii[DNAME_MAX + 2];
	const char *reason;

	for (size_t i = 0; i + 1 < sizeof(name); i += 2)
		memcpy(name + i, "\xc3\xbc", 2);
	for (size_t len = 60; len < sizeof(name); len += 60)
		cr_assert(idna_to_ascii((struct text){ name, len }, ascii, &reason) != ERR_OK || strlen(ascii) <= DNAME_MAX + 1);
	cr_assert_eq(idna_to_ascii((struct text){ name, 1400 }, ascii, &reason), ERR_INVALID);
	cr_assert_eq(idna_to_ascii((struct text){ "a\0b", 3 }, ascii, &reason), ERR_INVALID);
}
