#include "tests/unit/compiler/segments.h"

#include "compiler/emit_internal.h"

Test(emit_tables, rules_keep_every_part)
{
	struct segment *s = segment_from("allow https://a.example as x note \"n\" pin=lease ech=refuse country=DE asn=5 report\n"
					 "\nallow tcp://192.0.2.0/24:1-2,9\ndeny *.b.example\n", POLICY_PRESET);
	const struct layout_place *places;
	const struct layout_ports *ports;
	const struct layout_rule *r;
	uint32_t count;

	r = segment_table(s, LAYOUT_RULES, &count);
	cr_assert_eq(count, 3);
	cr_assert(text_is(segment_text(s, r[0].id), "x"));
	cr_assert(text_is(segment_text(s, r[0].note), "n"));
	cr_assert(text_is(segment_text(s, r[0].origin), "preset"));
	cr_assert(text_is(segment_text(s, r[0].name), "a.example"));
	cr_assert_eq(r[0].line, 1);
	cr_assert_eq(r[0].number, 1);
	cr_assert_eq(r[0].pin, RULE_PIN_LEASE);
	cr_assert_eq(r[0].flags, LAYOUT_RULE_SCHEME_KNOWN | LAYOUT_RULE_ECH_REFUSE | LAYOUT_RULE_REPORT);
	cr_assert_eq(r[0].scheme, SCHEME_HTTPS);
	ports = segment_table(s, LAYOUT_PORTS, &count);
	cr_assert_eq(ports[r[0].ports.offset].first, 443);
	cr_assert_eq(r[1].ports.count, 2);
	cr_assert_eq(ports[r[1].ports.offset + 1].last, 9);
	places = segment_table(s, LAYOUT_PLACES, &count);
	cr_assert_eq(r[0].places.count, 2);
	cr_assert_eq(memcmp(places[r[0].places.offset].country, "DE", 2), 0);
	cr_assert_eq(places[r[0].places.offset + 1].asn, 5);
	cr_assert_eq(r[1].host, RULE_HOST_PREFIX);
	cr_assert_eq(r[1].prefix_len, 24);
	cr_assert_eq(r[1].line, 3);
	cr_assert_eq(r[1].number, 2);
	cr_assert_eq(r[2].flags, LAYOUT_RULE_DENY);
	cr_assert_eq(r[2].host, RULE_HOST_WILDCARD);
	cr_assert_eq(r[2].ports.count, 0);
	segment_unref(s);
}

Test(emit_tables, an_empty_policy_is_a_segment_too)
{
	struct segment *s = segment_from("# nothing\n", POLICY_PRESET);
	uint32_t count;

	(void)segment_table(s, LAYOUT_RULES, &count);
	cr_assert_eq(count, 0);
	segment_unref(s);
}

Test(emit_tables, what_does_not_fit_a_segment_is_refused)
{
	static const char block[1u << 20];
	struct emitted e = { 0 };
	struct emitter em;

	cr_assert_eq(crypto_init(), ERR_OK);
	emitter_init(&em, LAYOUT_RULESET);
	for (int i = 0; i < 63; i++)
		emitter_add(&em, LAYOUT_STRINGS, block, sizeof(block));
	cr_assert_eq(em.failed, ERR_OK);
	emitter_add(&em, LAYOUT_STRINGS, block, sizeof(block));
	cr_assert_eq(emitter_seal(&em, &e), ERR_LIMIT);
	emitter_add(&em, LAYOUT_STRINGS, block, sizeof(block));
	cr_assert_eq(em.failed, ERR_LIMIT);
	cr_assert_eq(emitter_seal(&em, &e), ERR_LIMIT);
	cr_assert_null(e.bytes);
	emitter_finish(&em);
}
