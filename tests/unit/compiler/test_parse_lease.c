#include "tests/unit/compiler/texts.h"

#define DIGEST "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define BASE "lease ls_a\nguest require source\nguest source 10.0.0.1\nmode allowlist\n"

Test(parse_lease, the_contracts_example_is_read)
{
	static const char text[] = "lease    ls_build7                       # id\n"
				   "tenant   ws_acme    run run_881    class code\n"
				   "expires  2026-12-01T00:00:00Z            # optional with local trust\n"
				   "guest    require source token            # never empty\n"
				   "guest    source 10.200.4.7/32    token sha256:" DIGEST "    listener vm-7f3a\n"
				   "mode     allowlist                       # deny_all | allowlist | dependency_provisioning\n"
				   "use      python                          # policy root/presets/python.policy\n"
				   "allow    https://pypi.org                as pypi-index\n"
				   "allow    https://*.pythonhosted.org      as pypi-files note \"wheels and sdists\"\n"
				   "deny     stats.example.org\n"
				   "limit    connections 256    connects_per_s 50    names 500\n"
				   "option   resolve on    why on    names_only off\n";
	struct parsed_text t;
	const struct policy *l;

	text_parse(&t, text, POLICY_LEASE, false);
	cr_assert_eq(t.err, ERR_OK, "%s", t.faults.first == NULL ? "" : t.faults.first->text);
	l = t.policy;
	cr_assert_str_eq(l->name, "ls_build7");
	cr_assert_eq(l->name_place.column, 10);
	cr_assert_str_eq(l->tenant, "ws_acme");
	cr_assert_str_eq(l->run, "run_881");
	cr_assert_str_eq(l->environment_class, "code");
	cr_assert_eq(l->exp_ms, 1796083200000u);
	cr_assert_eq(l->require, LAYOUT_REQUIRE_SOURCE | LAYOUT_REQUIRE_TOKEN);
	cr_assert_eq(l->sources->prefix.len, 32);
	cr_assert_eq(l->tokens->sha256[0], 0x9f);
	cr_assert_str_eq(l->listener, "vm-7f3a");
	cr_assert_eq(l->mode, POLICY_MODE_ALLOWLIST);
	cr_assert_eq(l->state, LAYOUT_LEASE_ACTIVE);
	cr_assert_str_eq(l->uses->name, "python");
	cr_assert_eq(l->rule_count, 3);
	cr_assert_eq(l->limits.connections, 256);
	cr_assert_eq(l->limits.connects_per_s, 50);
	cr_assert_eq(l->limits.names, 500);
	cr_assert_eq(l->limits.bytes, 0);
	cr_assert_eq(l->options, LAYOUT_OPTION_RESOLVE | LAYOUT_OPTION_WHY);
	text_finish(&t);
}

Test(parse_lease, several_sources_and_tokens_add_up)
{
	struct parsed_text t;

	text_parse(&t, "lease a\nguest require token\nguest source 10.0.0.0/8 source fd00::/8\nguest token sha256:" DIGEST
		       " token sha256:" DIGEST "\nmode deny_all\noption country DE,FR asn 64500\n", POLICY_LEASE, false);
	cr_assert_eq(t.err, ERR_OK);
	cr_assert_eq(t.policy->sources->next->prefix.addr.family, ADDR_V6);
	cr_assert_not_null(t.policy->tokens->next);
	cr_assert_eq(t.policy->place_count, 3);
	text_finish(&t);
}

Test(parse_lease, an_unknown_mode_is_no_fault)
{
	struct parsed_text t;

	text_parse(&t, "lease a\nguest require source\nguest source ::1\nmode whatever\n", POLICY_LEASE, false);
	cr_assert_eq(t.err, ERR_OK);
	cr_assert_eq(t.policy->mode, POLICY_MODE_UNKNOWN);
	text_finish(&t);
}

Test(parse_lease, report_needs_the_operators_leave)
{
	struct parsed_text t;

	text_parse(&t, BASE "enforcement report\n", POLICY_LEASE, true);
	cr_assert_eq(t.err, ERR_OK);
	cr_assert(t.policy->report);
	text_finish(&t);
	text_parse(&t, BASE "enforcement enforce\n", POLICY_LEASE, true);
	cr_assert_not(t.policy->report);
	text_finish(&t);
}

static const struct bad_text bad[] = {
	{ POLICY_LEASE, BASE "lease ls_b", 5, 1, "duplicate_statement", "line 1" },
	{ POLICY_LEASE, BASE "tenant", 5, 1, "value_missing", "tenant" },
	{ POLICY_LEASE, BASE "tenant a run", 5, 10, "value_missing", "run" },
	{ POLICY_LEASE, BASE "tenant a rnu b", 5, 10, "unknown_word", "did you mean run?" },
	{ POLICY_LEASE, BASE "tenant a/b", 5, 8, "bad_word", "a/b" },
	{ POLICY_LEASE, BASE "run a\nrun b", 6, 1, "duplicate_statement", "line 5" },
	{ POLICY_LEASE, BASE "expires tomorrow", 5, 9, "bad_time", "2026-12-01T00:00:00Z" },
	{ POLICY_LEASE, BASE "expires 2026-12-01", 5, 9, "bad_time", "2026-12-01T00:00:00Z" },
	{ POLICY_LEASE, BASE "guest", 5, 1, "value_missing", "guest" },
	{ POLICY_LEASE, BASE "guest require token", 5, 7, "duplicate_statement", "line 2" },
	{ POLICY_LEASE, BASE "guest surce ::1", 5, 7, "unknown_word", "did you mean source?" },
	{ POLICY_LEASE, BASE "guest source", 5, 7, "value_missing", "source" },
	{ POLICY_LEASE, BASE "guest source 10.0.0.1/8", 5, 14, "bad_prefix", "10.0.0.1/8" },
	{ POLICY_LEASE, BASE "guest source localhost", 5, 14, "bad_prefix", "localhost" },
	{ POLICY_LEASE, BASE "guest token " DIGEST, 5, 13, "bad_digest", "sha256:" },
	{ POLICY_LEASE, BASE "guest token sha256:9F86", 5, 13, "bad_digest", "64 lower-case" },
	{ POLICY_LEASE, BASE "guest token v1.secret", 5, 13, "bad_digest", "egressctl token new" },
	{ POLICY_LEASE, BASE "guest listener a\nguest listener b", 6, 16, "duplicate_statement", "line 5" },
	{ POLICY_LEASE, BASE "guest listener a/b", 5, 16, "bad_word", "a/b" },
	{ POLICY_LEASE, BASE "mode deny_all", 5, 1, "duplicate_statement", "line 4" },
	{ POLICY_LEASE, BASE "limit", 5, 1, "value_missing", "limit" },
	{ POLICY_LEASE, BASE "limit conections 5", 5, 7, "unknown_word", "did you mean connections?" },
	{ POLICY_LEASE, BASE "limit connections", 5, 7, "value_missing", "connections" },
	{ POLICY_LEASE, BASE "limit connections 0", 5, 19, "bad_number", "from 1 to" },
	{ POLICY_LEASE, BASE "limit connections 1000001", 5, 19, "bad_number", "to 1000000" },
	{ POLICY_LEASE, BASE "limit connections 010", 5, 19, "bad_number", "number" },
	{ POLICY_LEASE, BASE "limit names 5 names 6", 5, 21, "duplicate_statement", "names" },
	{ POLICY_LEASE, BASE "option", 5, 1, "value_missing", "option" },
	{ POLICY_LEASE, BASE "option why", 5, 8, "value_missing", "why" },
	{ POLICY_LEASE, BASE "option why yes", 5, 12, "unknown_word", "on or off" },
	{ POLICY_LEASE, BASE "option ech on", 5, 12, "unknown_word", "refuse or allow" },
	{ POLICY_LEASE, BASE "option resolv on", 5, 8, "unknown_word", "did you mean resolve?" },
	{ POLICY_LEASE, BASE "option why on\noption why on", 6, 8, "duplicate_statement", "line 5" },
	{ POLICY_LEASE, BASE "option country de", 5, 16, "bad_place", "DE,FR" },
	{ POLICY_LEASE, BASE "enforcement", 5, 1, "bad_statement", "enforce" },
	{ POLICY_LEASE, BASE "enforcement off", 5, 13, "unknown_word", "enforce or report" },
	{ POLICY_LEASE, BASE "enforcement report", 5, 13, "report_not_allowed", "report_allowed = on" },
	{ POLICY_LEASE, BASE "allow any", 5, 7, "any_outside_ceiling", "ceiling" },
	{ POLICY_LEASE, BASE "provisioning p", 5, 1, "statement_not_here", "a lease" },
	{ POLICY_LEASE, "lease a\nguest require mac\nguest source ::1\nmode deny_all\n", 2, 15, "unknown_word", "listener, source or token" },
	{ POLICY_LEASE, "lease a\nguest require\nguest source ::1\nmode deny_all\n", 2, 7, "value_missing", "require" },
	{ POLICY_LEASE, "lease a\nguest require source source\nguest source ::1\nmode deny_all\n", 2, 22, "duplicate_word", "source" },
};

Test(parse_lease, each_fault_is_told_where_it_is)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		text_expect_fault(&bad[i]);
}
