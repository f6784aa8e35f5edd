/*
 * The one canonicaliser of names. A canonical name is its own canonical form in any letter case and
 * with a final dot; nothing but letter case and one final dot is ever changed; its labels and its
 * wire form say the same.
 */
#include "base/dname.h"
#include "require.h"

static void check_labels(const struct dname *name)
{
	uint8_t wire[255];
	size_t at = 0, wire_len = dname_to_wire(name, wire);
	unsigned labels = 0;

	for (size_t text_at = 0; wire[at] != 0; labels++) {
		size_t len = wire[at];

		REQUIRE(len <= 63 && memcmp(wire + at + 1, name->text + text_at, len) == 0);
		at += 1 + len;
		text_at += 1 + len;
	}
	REQUIRE(at + 1 == wire_len && labels == name->label_count && wire_len == name->len + 2u);
}

static void check_upper_case_and_dot(const struct dname *name)
{
	char upper[DNAME_MAX + 2];
	struct dname again;

	for (size_t i = 0; i < name->len; i++) {
		char c = name->text[i];

		REQUIRE((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
			c == '.');
		upper[i] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
	}
	upper[name->len] = '.';
	REQUIRE(dname_parse((struct text){ upper, name->len }, DNAME_FINAL_DOT_REFUSE, &again) ==
		DNAME_OK);
	REQUIRE(dname_equal(name, &again));
	REQUIRE(dname_parse((struct text){ upper, name->len + 1u }, DNAME_FINAL_DOT_DROP, &again) ==
		DNAME_OK);
	REQUIRE(dname_equal(name, &again));
	REQUIRE(dname_parse((struct text){ upper, name->len + 1u }, DNAME_FINAL_DOT_REFUSE,
			    &again) == DNAME_INVALID);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text in = { (const char *)data, size };
	struct dname name, strict;
	enum dname_result r = dname_parse(in, DNAME_FINAL_DOT_DROP, &name);

	if (size > 0 && data[size - 1] == '.')
		REQUIRE(dname_parse(in, DNAME_FINAL_DOT_REFUSE, &strict) == DNAME_INVALID);
	else
		REQUIRE(dname_parse(in, DNAME_FINAL_DOT_REFUSE, &strict) == r);
	if (r != DNAME_OK)
		return 0;
	REQUIRE(size == name.len || (size == name.len + 1u && data[size - 1] == '.'));
	for (size_t i = 0; i < name.len; i++)
		REQUIRE(name.text[i] == text_lower((char)data[i]));
	REQUIRE(name.text[name.len] == '\0');
	check_labels(&name);
	check_upper_case_and_dot(&name);
	return 0;
}
