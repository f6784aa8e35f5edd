#include "tests/unit/compiler/texts.h"

#include "base/alloc.h"

Test(parse, rules_have_their_options_numbers_and_places)
{
	static const char text[] = "# a preset\n"
				   "allow https://pypi.org  as pypi-index\n"
				   "allow https://*.example.org as files note \"wheels # and \\\"sdists\\\"\" pin=lease ech=refuse country=DE,FR asn=64500\n"
				   "\n"
				   "deny stats.example.org note \"\"\n"
				   "use other more\n";
	struct parsed_text t;
	const struct policy_rule *r;
	char printed[RULE_TEXT_MAX];

	text_parse(&t, text, POLICY_PRESET, false);
	cr_assert_eq(t.err, ERR_OK);
	cr_assert_eq(t.policy->rule_count, 3);
	r = t.policy->rules;
	cr_assert_str_eq(r->id, "pypi-index");
	cr_assert_eq(r->number, 1);
	cr_assert_eq(r->place.line, 2);
	cr_assert_eq(r->place.column, 7);
	cr_assert_eq(r->pin, RULE_PIN_DEFAULT);
	r = r->next;
	cr_assert_str_eq(rule_print(&r->rule, printed), "https://*.example.org");
	cr_assert_str_eq(r->note, "wheels # and \"sdists\"");
	cr_assert_eq(r->pin, RULE_PIN_LEASE);
	cr_assert(r->ech_refuse);
	cr_assert_eq(r->place_count, 3);
	cr_assert_str_eq(r->places[1].country, "FR");
	cr_assert_eq(r->places[2].asn, 64500);
	r = r->next;
	cr_assert_eq(r->rule.action, RULE_DENY);
	cr_assert_str_eq(r->id, "");
	cr_assert_eq(r->number, 3);
	cr_assert_str_eq(t.policy->uses->name, "other");
	cr_assert_str_eq(t.policy->uses->next->name, "more");
	cr_assert_eq(t.policy->uses->next->place.column, 11);
	text_finish(&t);
}

Test(parse, the_ceiling_has_statements_of_its_own)
{
	static const char text[] = "allow any country=DE\n"
				   "allow http://plain.example\n"
				   "exception 10.20.0.0/16,[fd00::/8] for registry.corp.example\n"
				   "exception fd00::1 for *.corp.internal\n"
				   "exception registry.internal\n"
				   "exception 10.0.0.0/8 for 10.1.0.0/16\n"
				   "exception 10.1.2.0/24 for 10.1.0.0/16\n"
				   "exception 169.254.0.0/16 for a.example\n"
				   "provisioning python node\n"
				   "limit connections 9\n"
				   "option why off ech refuse\n"
				   "enforcement enforce\n";
	struct parsed_text t;
	const struct policy_exception *x;
	char prefix[PREFIX_TEXT_MAX];

	text_parse(&t, text, POLICY_CEILING, false);
	cr_assert_eq(t.err, ERR_OK, "%s", t.faults.first == NULL ? "" : t.faults.first->text);
	cr_assert_eq(t.policy->rules->rule.host, RULE_HOST_ANY);
	cr_assert_eq(t.policy->rules->place_count, 1);
	x = t.policy->exceptions;
	cr_assert_str_eq(prefix_print(&x->prefix, prefix), "10.20.0.0/16");
	cr_assert_str_eq(x->host.name.text, "registry.corp.example");
	x = x->next;
	cr_assert_str_eq(prefix_print(&x->prefix, prefix), "fd00::/8");
	cr_assert_str_eq(x->host.name.text, "registry.corp.example");
	x = x->next;
	cr_assert_eq(x->host.host, RULE_HOST_WILDCARD);
	x = x->next;
	cr_assert_not(x->has_prefix);
	x = x->next;
	/* For an address asked for as such, only what both prefixes hold is re-opened. */
	cr_assert_str_eq(prefix_print(&x->prefix, prefix), "10.1.0.0/16");
	x = x->next;
	cr_assert_str_eq(prefix_print(&x->prefix, prefix), "10.1.2.0/24");
	cr_assert_str_eq(t.policy->provisioning->next->name, "node");
	cr_assert_eq(t.policy->limits.connections, 9);
	cr_assert_eq(t.policy->options, LAYOUT_OPTION_ECH_REFUSE);
	cr_assert_eq(t.policy->options_off, LAYOUT_OPTION_WHY);
	text_finish(&t);
}

static const struct bad_text bad[] = {
	{ POLICY_PRESET, "alow https://a.example", 1, 1, "unknown_statement", "did you mean allow?" },
	{ POLICY_PRESET, "\n  frobnicate", 2, 3, "unknown_statement", "allow, deny" },
	{ POLICY_PRESET, "\"allow\" https://a.example", 1, 1, "unknown_statement", "allow" },
	{ POLICY_PRESET, "Allow https://a.example", 1, 1, "unknown_statement", "did you mean allow?" },
	{ POLICY_PRESET, "allow", 1, 1, "value_missing", "SCHEME://HOST" },
	{ POLICY_PRESET, "deny", 1, 1, "value_missing", "host" },
	{ POLICY_PRESET, "allow  pypi.org", 1, 8, "scheme_missing", "https://pypi.org" },
	{ POLICY_PRESET, "allow https://a..b", 1, 15, "host_invalid", "a..b" },
	{ POLICY_PRESET, "allow https://a.example:x", 1, 25, "port_invalid", "x is no port" },
	{ POLICY_PRESET, "allow \"https://a..b\"", 1, 16, "host_invalid", "a..b" },
	{ POLICY_PRESET, "allow any", 1, 7, "any_outside_ceiling", "ceiling" },
	{ POLICY_PRESET, "allow https://a.example as", 1, 25, "value_missing", "as needs an id" },
	{ POLICY_PRESET, "allow https://a.example note", 1, 25, "value_missing", "note needs" },
	{ POLICY_PRESET, "allow https://a.example as a/b", 1, 28, "bad_word", "letters" },
	{ POLICY_PRESET, "allow https://a.example as x as y", 1, 33, "duplicate_option", "before" },
	{ POLICY_PRESET, "allow https://a.example pin=forever", 1, 25, "unknown_word", "pin=connection" },
	{ POLICY_PRESET, "allow https://a.example pin=", 1, 25, "unknown_word", "pin=connection" },
	{ POLICY_PRESET, "allow https://a.example pin=ttl pin=ttl", 1, 33, "duplicate_option", "before" },
	{ POLICY_PRESET, "allow https://a.example ech=maybe", 1, 25, "unknown_word", "ech=allow" },
	{ POLICY_PRESET, "allow https://a.example country=de", 1, 25, "bad_place", "capital" },
	{ POLICY_PRESET, "allow https://a.example country=DE,", 1, 25, "bad_place", "capital" },
	{ POLICY_PRESET, "allow https://a.example asn=0", 1, 25, "bad_place", "AS numbers" },
	{ POLICY_PRESET, "allow https://a.example asn=AS1", 1, 25, "bad_place", "AS numbers" },
	{ POLICY_PRESET, "allow https://a.example reprot", 1, 25, "unknown_option", "reprot" },
	{ POLICY_PRESET, "allow https://a.example report", 1, 7, "report_not_allowed", "report_allowed = on" },
	{ POLICY_PRESET, "deny a.example pin=lease", 1, 6, "option_on_deny", "deny" },
	{ POLICY_PRESET, "deny a.example country=DE", 1, 6, "option_on_deny", "deny" },
	{ POLICY_PRESET, "allow https://metadata.google.internal", 1, 7, "metadata_name", "metadata" },
	{ POLICY_PRESET, "use", 1, 1, "value_missing", "preset" },
	{ POLICY_PRESET, "use ../x", 1, 5, "bad_preset_name", "../x" },
	{ POLICY_PRESET, "use a\nuse a", 2, 5, "duplicate_statement", "before" },
	{ POLICY_PRESET, "lease ls_a", 1, 1, "statement_not_here", "a preset" },
	{ POLICY_PRESET, "mode allowlist", 1, 1, "statement_not_here", "a preset" },
	{ POLICY_PRESET, "limit connections 1", 1, 1, "statement_not_here", "a preset" },
	{ POLICY_PRESET, "exception a.internal", 1, 1, "statement_not_here", "a preset" },
	{ POLICY_CEILING, "guest source ::1", 1, 1, "statement_not_here", "the ceiling" },
	{ POLICY_CEILING, "lease a", 1, 1, "statement_not_here", "the ceiling" },
	{ POLICY_CEILING, "allow any report", 1, 7, "report_in_ceiling", "never" },
	{ POLICY_CEILING, "enforcement report", 1, 13, "report_in_ceiling", "never" },
	{ POLICY_CEILING, "option country DE", 1, 16, "not_in_ceiling", "country=" },
	{ POLICY_CEILING, "exception 10.0.0.0/8", 1, 11, "bad_statement", "for HOST" },
	{ POLICY_CEILING, "exception 10.0.0.0/8 to a.example", 1, 1, "bad_statement", "for HOST" },
	{ POLICY_CEILING, "exception", 1, 1, "bad_statement", "for HOST" },
	{ POLICY_CEILING, "exception 10.0.0.1/8 for a.example", 1, 11, "bad_prefix", "10.0.0.1/8" },
	{ POLICY_CEILING, "exception 10.0.0.0/8 for a..b", 1, 26, "host_invalid", "a..b" },
	{ POLICY_CEILING, "exception 10.0.0.0/8 for a.example:80", 1, 26, "port_invalid", "without a port" },
	{ POLICY_CEILING, "exception 127.0.0.0/8 for a.example", 1, 11, "exception_forbidden", "loopback" },
	{ POLICY_CEILING, "exception ::1 for a.example", 1, 11, "exception_forbidden", "loopback" },
	{ POLICY_CEILING, "exception 169.254.169.254 for a.example", 1, 11, "exception_forbidden", "metadata" },
	{ POLICY_CEILING, "exception 0.0.0.0/0 for a.example", 1, 11, "exception_too_wide", "family" },
	{ POLICY_CEILING, "exception 10.0.0.0/8 for metadata.google.internal", 1, 26, "metadata_name", "metadata" },
	{ POLICY_CEILING, "exception 10.0.0.0/8 for 192.168.0.0/16", 1, 11, "exception_forbidden", "in common" },
	{ POLICY_CEILING, "provisioning", 1, 1, "value_missing", "preset" },
	{ POLICY_PRESET, "allow https://a.example # ok\nuse a\"b", 2, 6, "quote_in_word", "quote" },
};

Test(parse, each_fault_is_told_where_it_is)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)

			text_expect_fault(&bad[i]);
}

Test(parse, all_faults_come_at_once)
{
	struct parsed_text t;

	text_parse(&t, "nonsense\nallow https://*\ndeny\nallow https://ok.example\nuse A\n", POLICY_PRESET, false);
	cr_assert_eq(t.err, ERR_INVALID);
	cr_assert_eq(t.faults.error_count, 4);
	cr_assert_eq(t.policy->rule_count, 1);
	text_finish(&t);
}

Test(parse, report_rules_need_the_operators_leave)
{
	struct parsed_text t;

	text_parse(&t, "allow https://a.example report\ndeny b.example report\n", POLICY_PRESET, true);
	cr_assert_eq(t.err, ERR_OK);
	cr_assert(t.policy->rules->report && t.policy->rules->next->report);
	text_finish(&t);
}

Test(parse, denies_may_name_what_allows_may_not)
{
	struct parsed_text t;

	text_parse(&t, "deny metadata.google.internal\ndeny 169.254.169.254\ndeny localhost\n", POLICY_PRESET, false);
	cr_assert_eq(t.err, ERR_OK);
	text_finish(&t);
}

Test(parse, every_prefix_reads_and_gives_a_tree)
{
	static const char text[] = "lease a run b\nguest require source\nguest source ::1 token sha256:00\nmode allowlist\nuse p\n"
				   "allow tcp://[::1/128]:1-2 as x note \"q\" pin=ttl country=DE\noption why on ech refuse\nlimit names 5\n";

	for (size_t len = 0; len < sizeof(text); len++) {
		const struct parse_as as = { .kind = POLICY_LEASE, .name = "" };
		char *exact = alloc_copy(text, len);
		struct parsed_text t;

		arena_init(&t.arena, 0);
		fault_list_init(&t.faults, &t.arena);
		t.err = parse_policy(&t.arena, "t", (struct text){ exact, len }, &as, &t.faults, &t.policy);
		cr_assert(t.err == ERR_OK || t.err == ERR_INVALID);
		cr_assert_not_null(t.policy);
		alloc_free(exact);
		text_finish(&t);
	}
}

Test(parse, without_memory_it_fails_whole)
{
	static const char text[] = "allow https://a.example as x note \"n\" country=DE\nuse p\nbad\n";

	for (size_t limit = 1; limit < 6000; limit += 13) {
		const struct parse_as as = { .kind = POLICY_PRESET, .name = "p" };
		struct parsed_text t = { .policy = NULL };

		arena_init(&t.arena, limit);
		fault_list_init(&t.faults, &t.arena);
		t.err = parse_policy(&t.arena, "t", text_of(text), &as, &t.faults, &t.policy);
		cr_assert(t.err == ERR_NO_MEMORY || t.err == ERR_INVALID);
		cr_assert_eq(t.policy != NULL, t.err == ERR_INVALID);
		text_finish(&t);
	}
}
