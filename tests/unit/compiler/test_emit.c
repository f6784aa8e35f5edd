#include "tests/unit/compiler/segments.h"

#define DIGEST "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define LEASE "lease a\ntenant t run r class c\nexpires 2026-12-01T00:00:00Z\nguest require source token listener\n" \
	      "guest source 10.0.0.0/8 source ::1 token sha256:" DIGEST " listener l\nmode allowlist\n"                \
	      "option resolve on why on ech refuse country DE asn 7\nlimit connections 5 names 6\n"                     \
	      "allow https://a.example as x\n"

static struct segment *lease_under(const char *lease, const char *ceiling)
{
	struct parsed_text l, c;
	struct emitted e;
	struct segment *s;

	cr_assert_eq(crypto_init(), ERR_OK);
	text_parse(&l, lease, POLICY_LEASE, true);
	cr_assert_eq(l.err, ERR_OK);
	text_parse(&c, ceiling, POLICY_CEILING, false);
	cr_assert_eq(c.err, ERR_OK);
	cr_assert_eq(emit_lease(l.policy, c.policy, NULL, 0, false, &e), ERR_OK);
	s = segment_verified(&e);
	emitted_finish(&e);
	text_finish(&c);
	text_finish(&l);
	return s;
}

Test(emit, a_lease_keeps_everything_it_says)
{
	struct segment *s = segment_from(LEASE, POLICY_LEASE);
	const struct layout_lease *l = segment_lease(s);
	const struct layout_source *sources;
	const struct layout_token *tokens;
	uint32_t count;

	cr_assert_eq(segment_kind(s), LAYOUT_LEASE);
	cr_assert(text_is(segment_text(s, l->id), "a"));
	cr_assert(text_is(segment_text(s, l->tenant), "t"));
	cr_assert(text_is(segment_text(s, l->run), "r"));
	cr_assert(text_is(segment_text(s, l->environment_class), "c"));
	cr_assert(text_is(segment_text(s, l->listener), "l"));
	cr_assert_eq(l->exp_ms, 1796083200000u);
	cr_assert_eq(l->state, LAYOUT_LEASE_ACTIVE);
	cr_assert_eq(l->scope, LAYOUT_SCOPE_DECLARED);
	cr_assert_eq(l->require, LAYOUT_REQUIRE_LISTENER | LAYOUT_REQUIRE_SOURCE | LAYOUT_REQUIRE_TOKEN);
	cr_assert_eq(l->options, LAYOUT_OPTION_RESOLVE | LAYOUT_OPTION_WHY | LAYOUT_OPTION_ECH_REFUSE);
	cr_assert_eq(l->limits.connections, 5);
	cr_assert_eq(l->limits.names, 6);
	cr_assert_eq(l->places.count, 2);
	sources = segment_table(s, LAYOUT_SOURCES, &count);
	cr_assert_eq(count, 2);
	cr_assert_eq(sources[1].family, ADDR_V6);
	tokens = segment_table(s, LAYOUT_TOKENS, &count);
	cr_assert_eq(count, 1);
	cr_assert_eq(tokens->digest[31], 0x08);
	segment_unref(s);
}

Test(emit, the_same_text_gives_the_same_bytes_and_another_does_not)
{
	struct emitted a, b, c;

	cr_assert_eq(segment_emit(LEASE, POLICY_LEASE, &a), ERR_OK);
	cr_assert_eq(segment_emit("# first\n\n" LEASE, POLICY_LEASE, &b), ERR_OK);
	cr_assert_eq(segment_emit(LEASE, POLICY_LEASE, &c), ERR_OK);
	cr_assert_eq(a.len, c.len);
	cr_assert_eq(memcmp(a.bytes, c.bytes, a.len), 0);
	/* Lines are part of what a rule says of itself. */
	cr_assert_neq(memcmp(a.id, b.id, LAYOUT_ID_LEN), 0);
	emitted_finish(&a);
	emitted_finish(&b);
	emitted_finish(&c);
}

Test(emit, scope_is_derived_from_the_mode_and_what_is_claimed_stands_beside_it)
{
	static const struct {
		enum policy_mode mode;
		enum layout_scope claimed, scope;
	} rows[] = {
		{ POLICY_MODE_DENY_ALL, 0, LAYOUT_SCOPE_NONE },
		{ POLICY_MODE_ALLOWLIST, 0, LAYOUT_SCOPE_DECLARED },
		{ POLICY_MODE_PROVISIONING, 0, LAYOUT_SCOPE_DECLARED },
		{ POLICY_MODE_UNKNOWN, 0, LAYOUT_SCOPE_UNDECLARED },
		{ POLICY_MODE_UNSAID, 0, LAYOUT_SCOPE_UNDECLARED },
		{ POLICY_MODE_UNKNOWN, LAYOUT_SCOPE_DECLARED, LAYOUT_SCOPE_UNDECLARED },
		{ POLICY_MODE_DENY_ALL, LAYOUT_SCOPE_UNDECLARED, LAYOUT_SCOPE_NONE },
		{ POLICY_MODE_ALLOWLIST, LAYOUT_SCOPE_NONE, LAYOUT_SCOPE_DECLARED },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct parsed_text t;
		struct emitted e;
		struct segment *s;

		cr_assert_eq(crypto_init(), ERR_OK);
		text_parse(&t, LEASE, POLICY_LEASE, false);
		t.policy->mode = rows[i].mode;
		t.policy->claimed_scope = rows[i].claimed;
		cr_assert_eq(emit_lease(t.policy, NULL, NULL, 0, false, &e), ERR_OK);
		s = segment_verified(&e);
		cr_assert_eq(segment_lease(s)->scope, rows[i].scope, "row %zu", i);
		cr_assert_eq(segment_lease(s)->claimed_scope, rows[i].claimed, "row %zu", i);
		segment_unref(s);
		emitted_finish(&e);
		text_finish(&t);
	}
}

Test(emit, a_lease_is_intersected_with_the_ceiling)
{
	struct segment *s = lease_under(LEASE, "allow any\nlimit connections 9 names 4 bytes 100\noption why off names_only on resolve on\n");
	const struct layout_lease *l = segment_lease(s);

	cr_assert_eq(l->limits.connections, 5);
	cr_assert_eq(l->limits.names, 4);
	cr_assert_eq(l->limits.bytes, 100);
	cr_assert_eq(l->limits.idle_ms, 0);
	cr_assert_eq(l->options, LAYOUT_OPTION_RESOLVE | LAYOUT_OPTION_ECH_REFUSE | LAYOUT_OPTION_NAMES_ONLY);
	segment_unref(s);
	/* The ceiling can forbid, not grant. */
	s = lease_under("lease a\nguest require source\nguest source ::1\nmode deny_all\n", "allow any\noption resolve on why on ech allow names_only off\n");
	cr_assert_eq(segment_lease(s)->options, 0);
	segment_unref(s);
}

Test(emit, a_missing_ruleset_shows_in_the_state_of_an_active_lease)
{
	static const enum layout_lease_state states[] = { LAYOUT_LEASE_ACTIVE, LAYOUT_LEASE_SUSPENDED, LAYOUT_LEASE_REVOKED };

	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		struct parsed_text t;
		struct emitted e;
		struct segment *s;

		cr_assert_eq(crypto_init(), ERR_OK);
		text_parse(&t, LEASE, POLICY_LEASE, false);
		t.policy->state = states[i];
		cr_assert_eq(emit_lease(t.policy, NULL, NULL, 0, true, &e), ERR_OK);
		s = segment_verified(&e);
		cr_assert_eq(segment_lease(s)->state, i == 0 ? LAYOUT_LEASE_RULESET_MISSING : states[i]);
		segment_unref(s);
		emitted_finish(&e);
		text_finish(&t);
	}
}

Test(emit, a_quarantined_lease_has_no_rules_and_still_knows_its_guests)
{
	struct parsed_text t;
	struct emitted e;
	struct segment *s;
	uint32_t count;

	cr_assert_eq(crypto_init(), ERR_OK);
	text_parse(&t, LEASE "nonsense\n", POLICY_LEASE, false);
	cr_assert_eq(t.err, ERR_INVALID);
	cr_assert_eq(emit_quarantined("a", t.policy, &e), ERR_OK);
	s = segment_verified(&e);
	cr_assert_eq(segment_lease(s)->state, LAYOUT_LEASE_INVALID);
	cr_assert_eq(segment_lease(s)->scope, LAYOUT_SCOPE_UNDECLARED);
	cr_assert(text_is(segment_text(s, segment_lease(s)->listener), "l"));
	(void)segment_table(s, LAYOUT_SOURCES, &count);
	cr_assert_eq(count, 2);
	(void)segment_table(s, LAYOUT_RULES, &count);
	cr_assert_eq(count, 0);
	segment_unref(s);
	emitted_finish(&e);
	text_finish(&t);
	/* What is required but was not read cannot be asked for. */
	text_parse(&t, "lease a\nguest require source listener\n", POLICY_LEASE, false);
	cr_assert_eq(emit_quarantined("a", t.policy, &e), ERR_OK);
	s = segment_verified(&e);
	cr_assert_eq(segment_lease(s)->require, LAYOUT_REQUIRE_TOKEN);
	segment_unref(s);
	emitted_finish(&e);
	text_finish(&t);
	cr_assert_eq(emit_quarantined("b", NULL, &e), ERR_OK);
	s = segment_verified(&e);
	cr_assert(text_is(segment_text(s, segment_lease(s)->id), "b"));
	segment_unref(s);
	emitted_finish(&e);
}

Test(emit, a_ceiling_holds_its_exceptions_and_the_presets_it_uses)
{
	struct parsed_text c, p;
	const struct policy *presets[1];
	const struct layout_exception *x;
	const struct layout_rule *rules;
	struct emitted e;
	struct segment *s;
	uint32_t count;

	cr_assert_eq(crypto_init(), ERR_OK);
	text_parse(&c, "allow any as all\nexception 10.0.0.0/8 for *.corp.example\nexception a.internal\nexception 10.0.0.0/8 for 10.1.0.0/16\n",
		   POLICY_CEILING, false);
	text_parse(&p, "deny bad.example\n", POLICY_PRESET, false);
	presets[0] = p.policy;
	cr_assert_eq(emit_ceiling(c.policy, presets, 1, &e), ERR_OK);
	s = segment_verified(&e);
	rules = segment_table(s, LAYOUT_RULES, &count);
	cr_assert_eq(count, 2);
	cr_assert(text_is(segment_text(s, rules[0].id), "all"));
	cr_assert(text_is(segment_text(s, rules[0].origin), ""));
	cr_assert(text_is(segment_text(s, rules[1].origin), "preset"));
	x = segment_table(s, LAYOUT_EXCEPTIONS, &count);
	cr_assert_eq(count, 3);
	cr_assert_eq(x[0].host, RULE_HOST_WILDCARD);
	cr_assert(text_is(segment_text(s, x[0].name), "corp.example"));
	cr_assert_eq(x[0].prefix_len, 8);
	cr_assert_eq(x[0].line, 2);
	cr_assert_eq(x[1].family, 0);
	cr_assert_eq(x[2].host, RULE_HOST_PREFIX);
	cr_assert_eq(x[2].prefix_len, 16);
	segment_unref(s);
	emitted_finish(&e);
	text_finish(&p);
	text_finish(&c);
	cr_assert_eq(emit_ceiling(NULL, NULL, 0, &e), ERR_OK);
	s = segment_verified(&e);
	(void)segment_table(s, LAYOUT_RULES, &count);
	cr_assert_eq(count, 0);
	segment_unref(s);
	emitted_finish(&e);
}

Test(emit, a_root_is_sorted_and_names_each_lease_once)
{
	struct emit_root_lease leases[] = { { "b", { { 2 } } }, { "a", { { 1 } } }, { "c", { { 3 } } } };
	const struct layout_id ceiling = { { 9 } };
	const struct layout_root_lease *entries;
	struct emitted e;
	struct segment *s;
	uint32_t count;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(emit_root(5, 0, &ceiling, LAYOUT_ROOT_REPORT_ALLOWED, leases, 3, &e), ERR_OK);
	s = segment_verified(&e);
	cr_assert_eq(segment_root(s)->version, 5);
	cr_assert_eq(segment_root(s)->ceiling.bytes[0], 9);
	cr_assert_eq(segment_root(s)->flags, LAYOUT_ROOT_REPORT_ALLOWED);
	entries = segment_table(s, LAYOUT_ROOT_LEASES, &count);
	cr_assert_eq(count, 3);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(entries[i].segment.bytes[0], i + 1);
	segment_unref(s);
	emitted_finish(&e);
	leases[2].id = "a";
	cr_assert_eq(emit_root(5, 0, &ceiling, 0, leases, 3, &e), ERR_EXISTS);
	cr_assert_eq(emit_root(5, 0, &ceiling, 0, NULL, 0, &e), ERR_OK);
	segment_unref(segment_verified(&e));
	emitted_finish(&e);
}

Test(emit, a_root_with_a_base_names_changes_and_what_is_gone)
{
	struct emit_root_lease leases[] = { { "b", { { 0 } } }, { "a", { { 1 } } } };
	const struct layout_id ceiling = { { 9 } };
	const struct layout_root_lease *entries;
	struct emitted e;
	struct segment *s;
	uint32_t count;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(emit_root(5, 4, &ceiling, 0, leases, 2, &e), ERR_OK);
	s = segment_verified(&e);
	cr_assert_eq(segment_root(s)->version, 5);
	cr_assert_eq(segment_root(s)->base, 4);
	entries = segment_table(s, LAYOUT_ROOT_LEASES, &count);
	cr_assert_eq(count, 2);
	cr_assert_not(layout_id_is_none(&entries[0].segment));
	cr_assert(layout_id_is_none(&entries[1].segment));
	segment_unref(s);
	emitted_finish(&e);
}

Test(emit, without_memory_there_is_no_segment)
{
	struct parsed_text t;
	bool succeeded = false;

	cr_assert_eq(crypto_init(), ERR_OK);
	text_parse(&t, LEASE "allow tcp://192.0.2.0/24:1\ndeny *.b.example\n", POLICY_LEASE, false);
	for (uint64_t nth = 1; !succeeded; nth++) {
		const struct layout_id ruleset = { { 1 } };
		struct emitted e = { 0 };
		enum err err;

		alloc_fail_at(nth);
		err = emit_lease(t.policy, NULL, &ruleset, 1, false, &e);
		alloc_fail_at(0);
		succeeded = err == ERR_OK;
		cr_assert(succeeded || err == ERR_NO_MEMORY);
		cr_assert_eq(e.bytes != NULL, succeeded);
		emitted_finish(&e);
		cr_assert_lt(nth, 100);
	}
	text_finish(&t);
}

Test(emit, bytes_live_as_long_as_somebody_shares_them)
{
	struct parsed_text l;
	struct emitted e, second, third, by_hand = { .bytes = NULL };
	const uint8_t *at;

	cr_assert_eq(crypto_init(), ERR_OK);
	text_parse(&l, LEASE, POLICY_LEASE, true);
	cr_assert_eq(emit_quarantined("a", l.policy, &e), ERR_OK);
	text_finish(&l);
	at = e.bytes;
	cr_assert_eq(emitted_share(&e, &second), ERR_OK);
	cr_assert_eq(second.bytes, at);
	emitted_finish(&e);
	cr_assert_null(e.bytes);
	cr_assert_eq(emitted_share(&second, &third), ERR_OK);
	emitted_finish(&second);
	cr_assert_eq(third.bytes, at);
	/* What was made by hand has no room to count in. */
	by_hand.bytes = third.bytes;
	by_hand.len = third.len;
	cr_assert_eq(emitted_share(&by_hand, &second), ERR_OK);
	cr_assert_neq(second.bytes, at);
	cr_assert_eq(memcmp(second.bytes, at, second.len), 0);
	alloc_fail_at(1);
	cr_assert_eq(emitted_share(&by_hand, &e), ERR_NO_MEMORY);
	alloc_fail_at(0);
	emitted_finish(&second);
	segment_unref(segment_verified(&third));
	emitted_finish(&third);
	emitted_finish(&third);
}
