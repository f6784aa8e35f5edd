/* The canonicaliser: what is a name, what it looks like, and where its labels begin. */
#include "base/dname.h"

#include <criterion/criterion.h>

#define LABEL63 "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggg"
#define LABEL61 "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffg"
#define NAME253 LABEL63 "." LABEL63 "." LABEL63 "." LABEL61

static enum dname_result parse(const char *in, struct dname *out)
{
	return dname_parse(text_of(in), DNAME_FINAL_DOT_DROP, out);
}

Test(dname, a_name_gets_one_canonical_form)
{
	static const struct {
		const char *in, *out;
		unsigned labels;
	} rows[] = {
		{ "example.org", "example.org", 2 },
		{ "EXAMPLE.Org", "example.org", 2 },
		{ "example.org.", "example.org", 2 },
		{ "a", "a", 1 },
		{ "_dmarc.x-1.example", "_dmarc.x-1.example", 3 },
		{ "-a-.b", "-a-.b", 2 },
		{ "xn--bcher-kva.example", "xn--bcher-kva.example", 2 },
		{ "1.2.3.example", "1.2.3.example", 4 },
		{ "0x1g", "0x1g", 1 },
		{ "1a", "1a", 1 },
		{ "x0", "x0", 1 },
		{ "0-1", "0-1", 1 },
		{ LABEL63, LABEL63, 1 },
		{ NAME253, NAME253, 4 },
		{ NAME253 ".", NAME253, 4 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct dname name;

		cr_assert_eq(parse(rows[i].in, &name), DNAME_OK, "%s", rows[i].in);
		cr_expect_str_eq(name.text, rows[i].out);
		cr_expect_eq(name.len, strlen(rows[i].out));
		cr_expect_eq(name.label_count, rows[i].labels, "%s", rows[i].in);
	}
}

Test(dname, nothing_else_is_a_name_and_nothing_is_repaired)
{
	static const char *const bad[] = {
		"", ".", "..", "a..b", ".a", "a..", "a.b..", " a", "a ", "a b", "a/b", "a@b", "a:80",
		"[a]", "a%2e", "a\\046b", "*.example.org", "a,b", "b\xc3\xbc" "cher.example",
		"example\xe3\x80\x82org", "\xef\xbd\x81.example", "a\tb", "a\r\nb", "a\x7f", "a\x80",
		LABEL63 "g", LABEL63 "g.org", "x." LABEL63 "g.org", NAME253 "h", NAME253 "h.",
	};
	struct dname name = { .len = 77 };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		cr_expect_eq(parse(bad[i], &name), DNAME_INVALID, "%s", bad[i]);
	cr_expect_eq(dname_parse((struct text){ "a\0.example.org", 14 }, DNAME_FINAL_DOT_DROP, &name),
		     DNAME_INVALID);
	cr_expect_eq(dname_parse((struct text){ "example.org\0", 12 }, DNAME_FINAL_DOT_DROP, &name),
		     DNAME_INVALID);
	cr_expect_eq(dname_parse((struct text){ NULL, 0 }, DNAME_FINAL_DOT_DROP, &name),
		     DNAME_INVALID);
	cr_expect_eq(name.len, 77, "written only on success");
}

Test(dname, every_byte_value_is_either_allowed_or_refused)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

	for (int byte = 0; byte < 256; byte++) {
		char in[3] = { 'x', (char)byte, 'x' };
		struct dname name;
		bool ok = dname_parse((struct text){ in, 3 }, DNAME_FINAL_DOT_DROP, &name) ==
			  DNAME_OK;
		bool want = byte == '.' || (byte != 0 && strchr(allowed, byte) != NULL);

		cr_expect_eq(ok, want, "byte %d", byte);
	}
}

Test(dname, a_last_label_that_is_a_number_is_an_address_attempt)
{
	static const char *const numeric[] = { "1",	    "2130706433", "127.1",     "127.0.0.1",
					       "127.0.0.1.", "a.1",	  "a.0x",      "a.0X7F",
					       "0x7f000001", "1.2.3.4.5", "example.09" };
	struct dname name;

	for (size_t i = 0; i < ARRAY_LEN(numeric); i++)
		cr_expect_eq(parse(numeric[i], &name), DNAME_NUMERIC, "%s", numeric[i]);
	cr_expect_eq(parse("1..2", &name), DNAME_INVALID);
}

Test(dname, a_final_dot_can_be_refused)
{
	struct dname name;

	cr_expect_eq(dname_parse(text_of("example.org."), DNAME_FINAL_DOT_REFUSE, &name),
		     DNAME_INVALID);
	cr_expect_eq(dname_parse(text_of("1.2.3.4."), DNAME_FINAL_DOT_REFUSE, &name), DNAME_INVALID);
	cr_expect_eq(dname_parse(text_of("example.org"), DNAME_FINAL_DOT_REFUSE, &name), DNAME_OK);
}

Test(dname, being_within_means_a_label_boundary)
{
	struct dname name;

	cr_assert_eq(parse("a.wild.test", &name), DNAME_OK);
	cr_expect(dname_is_within(&name, text_of("a.wild.test")));
	cr_expect(dname_is_within(&name, text_of("wild.test")));
	cr_expect(dname_is_within(&name, text_of("test")));
	cr_expect(!dname_is_within(&name, text_of("ild.test")));
	cr_expect(!dname_is_within(&name, text_of(".wild.test")));
	cr_expect(!dname_is_within(&name, text_of("b.a.wild.test")));
	cr_expect(!dname_is_within(&name, text_of("est")));
	cr_expect(!dname_is_within(&name, text_of("")));
}

Test(dname, parents_are_walked_label_by_label)
{
	struct text at = text_of("a.bc.def");

	at = dname_parent(at);
	cr_expect(text_is(at, "bc.def"));
	at = dname_parent(at);
	cr_expect(text_is(at, "def"));
	at = dname_parent(at);
	cr_expect_eq(at.len, 0);
	cr_expect_eq(dname_parent(at).len, 0);
}

Test(dname, equality_is_of_the_canonical_form)
{
	struct dname a, b, c;

	cr_assert_eq(parse("Example.ORG.", &a), DNAME_OK);
	cr_assert_eq(parse("example.org", &b), DNAME_OK);
	cr_assert_eq(parse("example.orh", &c), DNAME_OK);
	cr_expect(dname_equal(&a, &b));
	cr_expect(!dname_equal(&a, &c));
}

Test(dname, the_wire_form_is_labels_with_lengths)
{
	struct dname name;
	uint8_t wire[255];

	cr_assert_eq(parse("a.bc.def", &name), DNAME_OK);
	cr_expect_eq(dname_to_wire(&name, wire), 10);
	cr_expect_eq(memcmp(wire, "\1a\2bc\3def\0", 10), 0);
	cr_assert_eq(parse(NAME253, &name), DNAME_OK);
	cr_expect_eq(dname_to_wire(&name, wire), 255);
	cr_expect_eq(wire[0], 63);
	cr_expect_eq(wire[192], 61);
	cr_expect_eq(wire[254], 0);
}
