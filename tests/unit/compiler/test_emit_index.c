#include "tests/unit/compiler/segments.h"

static const struct layout_label_entry *entry_of(const struct segment *s, const char *name)
{
	return segment_label_entry(s, text_of(name));
}

Test(emit_index, each_name_has_one_entry_with_its_exact_and_wildcard_rules)
{
	struct segment *s = segment_from("allow https://*.b.example\nallow https://b.example\nallow tcp://b.example:1\n"
					 "deny *.b.example\nallow https://a.example\n", POLICY_PRESET);
	const struct layout_label_entry *e = entry_of(s, "b.example");
	const uint32_t *refs;
	uint32_t count;

	refs = segment_table(s, LAYOUT_RULE_REFS, &count);
	cr_assert_eq(count, 5);
	cr_assert_eq(e->exact.count, 2);
	cr_assert_eq(refs[e->exact.offset], 1);
	cr_assert_eq(refs[e->exact.offset + 1], 2);
	cr_assert_eq(e->wildcard.count, 2);
	cr_assert_eq(refs[e->wildcard.offset], 0);
	cr_assert_eq(refs[e->wildcard.offset + 1], 3);
	cr_assert_eq(entry_of(s, "a.example")->wildcard.count, 0);
	cr_assert_null(entry_of(s, "c.example"));
	segment_unref(s);
}

Test(emit_index, prefixes_stand_in_groups_by_family_and_length)
{
	struct segment *s = segment_from("deny [fd00::/8]\ndeny 10.0.0.0/8\ndeny 11.0.0.0/8:80\ndeny 10.0.0.0/8:80\ndeny 192.0.2.1\n", POLICY_PRESET);
	const struct layout_prefix_group *groups;
	const struct layout_prefix *prefixes;
	const uint32_t *refs;
	uint32_t count;

	groups = segment_table(s, LAYOUT_PREFIX_GROUPS, &count);
	cr_assert_eq(count, 3);
	cr_assert_eq(groups[0].len, 8);
	cr_assert_eq(groups[0].count, 2);
	cr_assert_eq(groups[1].len, 32);
	cr_assert_eq(groups[2].family, ADDR_V6);
	prefixes = segment_table(s, LAYOUT_PREFIXES, &count);
	cr_assert_eq(count, 4);
	refs = segment_table(s, LAYOUT_RULE_REFS, &count);
	cr_assert_eq(prefixes[0].rules.count, 2);
	cr_assert_eq(refs[prefixes[0].rules.offset], 1);
	cr_assert_eq(refs[prefixes[0].rules.offset + 1], 3);
	segment_unref(s);
}

Test(emit_index, many_names_are_all_found)
{
	enum { MANY = 20000 };
	size_t cap = MANY * 48, len = 0;
	char *text = alloc_zeroed(cap);
	struct segment *s;

	for (int i = 0; i < MANY; i++)
		len += (size_t)snprintf(text + len, cap - len, "allow https://%sh%d.example%d.test\n", i % 3 == 0 ? "*." : "", i, i % 7);
	s = segment_from(text, POLICY_PRESET);
	/* segment_open has proved that every rule can be found; ask for some from outside too. */
	cr_assert_not_null(entry_of(s, "h0.example0.test"));
	cr_assert_not_null(entry_of(s, "h19999.example0.test"));
	cr_assert_null(entry_of(s, "h20000.example1.test"));
	segment_unref(s);
	alloc_free(text);
}
