/* The typed refusal: its JSON, its sentences, and when it offers a wider rule. */
#include "judge/refusal.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "segment_builder.h"

static struct built_store store;

static struct snapshot *use(const char *ceiling, const char *rules)
{
	static char text[2048];
	const char *leases[] = { text, NULL };

	snprintf(text, sizeof(text), "lease ls_01JDX8M3\n%s", rules);
	built_store_init(&store);
	return built_snapshot(&store, 1, 0, ceiling, leases);
}

static void drop(struct snapshot *s)
{
	snapshot_unref(s);
	built_store_finish(&store);
}

static struct record record_of(const char *host, uint16_t port, enum reason why)
{
	struct record r = { .event = RECORD_DECISION, .rev = 17, .target_known = true };

	snprintf(r.id, sizeof(r.id), "01JDXA7Q000000000000000000");
	snprintf(r.lease, sizeof(r.lease), "ls_01JDX8M3");
	snprintf(r.environment_class, sizeof(r.environment_class), "code");
	r.verdict = verdict_refuse(why);
	cr_assert_eq(target_from_host(text_of(host), port, &r.target), TARGET_OK);
	return r;
}

Test(refusal, writes_the_object_of_the_contract)
{
	static const char expected[] =
		"{\"code\":\"network_destination_denied\",\"reason\":\"no_rule\","
		"\"what\":\"The run tried to reach https://files.example.org, which its network policy does "
		"not allow.\","
		"\"why\":\"No rule of lease ls_01JDX8M3 (revision 17) matches files.example.org.\","
		"\"suggested_fix\":\"Add https://files.example.org to the Worker's network limits.\","
		"\"fix_action\":{\"action\":\"widen_network_policy\",\"rule\":\"https://files.example.org\"},"
		"\"rule_reference\":{\"kind\":\"lease\",\"id\":null,\"label\":\"Network policy\"},"
		"\"environment_class\":\"code\",\"lease\":\"ls_01JDX8M3\",\"rev\":17,"
		"\"decision\":\"01JDXA7Q000000000000000000\",\"set_by\":\"egress\"}";
	struct record record = record_of("files.example.org", 443, REASON_NO_RULE);
	struct snapshot *s = use("allow any\n", "");
	char json[REFUSAL_JSON_MAX];
	struct refusal r;

	refusal_from_record(&record, s, &r);
	cr_expect_eq(refusal_json(&r, true, json, sizeof(json)), strlen(expected));
	cr_expect_str_eq(json, expected);
	drop(s);
}

Test(refusal, says_nothing_in_band_that_an_origin_could_forge)
{
	struct record record = record_of("files.example.org", 80, REASON_NO_RULE);
	struct snapshot *s = use("allow any\n", "");
	static const char *const secret[] = { "fix_action", "suggested_fix", "rule_reference", "widen",
					      "environment_class" };
	char json[REFUSAL_JSON_MAX];
	struct refusal r;

	refusal_from_record(&record, s, &r);
	cr_expect(r.has_fix);
	cr_assert_gt(refusal_json(&r, false, json, sizeof(json)), 0);
	for (size_t i = 0; i < ARRAY_LEN(secret); i++)
		cr_expect_null(strstr(json, secret[i]), "%s", secret[i]);
	cr_expect_not_null(strstr(json, "\"decision\":\"01JDXA7Q000000000000000000\""));
	cr_expect_not_null(strstr(json, "\"reason\":\"no_rule\""));
	drop(s);
}

Test(refusal, names_the_narrowest_rule_and_only_where_it_would_help)
{
	static const struct {
		const char *host;
		uint16_t port;
		enum reason why;
		int scheme; /* seen, or -1 */
		const char *fix; /* NULL: none */
	} rows[] = {
		{ "f.test", 443, REASON_NO_RULE, -1, "https://f.test" },
		{ "f.test", 80, REASON_NO_RULE, -1, "http://f.test" },
		{ "f.test", 22, REASON_NO_RULE, -1, "ssh://f.test" },
		{ "f.test", 5432, REASON_NO_RULE, -1, "tcp://f.test:5432" },
		{ "f.test", 8443, REASON_PORT_NOT_ALLOWED, SCHEME_HTTPS, "https://f.test:8443" },
		{ "f.test", 0, REASON_PORT_NOT_ALLOWED, -1, NULL },
		{ "f.test", 443, REASON_SCHEME_NOT_ALLOWED, SCHEME_HTTP, "http://f.test:443" },
		{ "f.test", 443, REASON_SCHEME_MISMATCH, SCHEME_SSH, "ssh://f.test:443" },
		{ "f.test", 5432, REASON_SCHEME_MISMATCH, -1, NULL },
		{ "9.9.9.9", 443, REASON_LITERAL_NOT_LISTED, -1, "tcp://9.9.9.9:443" },
		{ "9.9.9.9", 443, REASON_LITERAL_NOT_LISTED, SCHEME_HTTPS, "tcp://9.9.9.9:443" },
		{ "9.9.9.9", 80, REASON_LITERAL_NOT_LISTED, -1, "http://9.9.9.9" },
		{ "2620:fe::fe", 22, REASON_LITERAL_NOT_LISTED, -1, "ssh://[2620:fe::fe]" },
		{ "2620:fe::fe", 53, REASON_LITERAL_NOT_LISTED, -1, "tcp://[2620:fe::fe]:53" },
		/* The ceiling stands in the way. */
		{ "capped.test", 443, REASON_NO_RULE, -1, NULL },
		{ "capped.test", 22, REASON_NO_RULE, -1, NULL },
		/* A wider rule is no help. */
		{ "f.test", 443, REASON_RULE_DENY, -1, NULL },
		{ "f.test", 443, REASON_CEILING_DENY, -1, NULL },
		{ "f.test", 443, REASON_SPECIAL_ADDRESS, -1, NULL },
		{ "f.test", 443, REASON_NAME_SPECIAL, -1, NULL },
		{ "f.test", 443, REASON_CONTROL_STALE, -1, NULL },
		{ "f.test", 443, REASON_DNS_NXDOMAIN, -1, NULL },
		{ "f.test", 443, REASON_GEO_DENIED, -1, NULL },
		{ "f.test", 443, REASON_TLS_SNI_MISMATCH, SCHEME_HTTPS, NULL },
		{ "f.test", 443, REASON_SCOPE_NONE, -1, NULL },
	};
	struct snapshot *s = use("allow any\ndeny capped.test\n", "");

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct record record = record_of(rows[i].host, rows[i].port, rows[i].why);
		struct refusal r;

		record.scheme_plus_one = (uint8_t)(rows[i].scheme + 1);
		refusal_from_record(&record, s, &r);
		cr_expect_eq(r.has_fix, rows[i].fix != NULL, "row %zu", i);
		if (rows[i].fix != NULL)
			cr_expect_str_eq(r.fix_rule, rows[i].fix, "row %zu: %s", i, r.fix_rule);
		cr_expect_neq(r.suggested_fix[0], '\0');
		cr_expect_eq(strstr(r.suggested_fix, "network limits") != NULL, r.has_fix, "row %zu", i);
		/* Without a snapshot nobody knows what the ceiling would say. */
		refusal_from_record(&record, NULL, &r);
		cr_expect_not(r.has_fix);
	}
	drop(s);
}

Test(refusal, offers_no_literal_to_a_lease_that_takes_only_names)
{
	struct record record = record_of("9.9.9.9", 443, REASON_LITERAL_NOT_LISTED);
	struct snapshot *s = use("allow any\n", "option names_only\n");
	struct refusal r;

	refusal_from_record(&record, s, &r);
	cr_expect_not(r.has_fix);
	snprintf(record.lease, sizeof(record.lease), "ls_gone");
	refusal_from_record(&record, s, &r);
	cr_expect_not(r.has_fix);
	drop(s);
}

Test(refusal, has_sentences_and_a_label_for_every_reason)
{
	char json[REFUSAL_JSON_MAX];

	for (int why = REASON_ALLOWED + 1; why < REASON_COUNT; why++) {
		struct record record = record_of("f.test", 443, (enum reason)why);
		struct refusal r;

		refusal_from_record(&record, NULL, &r);
		cr_expect_eq(r.reason, (enum reason)why);
		cr_expect(r.what[0] >= 'A' && r.what[0] <= 'Z' && r.what[strlen(r.what) - 1] == '.');
		cr_expect(r.why[0] >= 'A' && r.why[0] <= 'Z' && r.why[strlen(r.why) - 1] == '.', "%s", r.why);
		cr_expect_neq(r.suggested_fix[0], '\0');
		cr_assert_gt(refusal_json(&r, true, json, sizeof(json)), 0);
		cr_expect_null(strstr(json, "\"label\":null"), "%s", json);
	}
}

Test(refusal, refers_to_whose_rule_it_was)
{
	static const struct {
		enum verdict_source source;
		enum reason why;
		const char *kind;
	} rows[] = {
		/* First and last of each group of reasons. */
		{ VERDICT_BY_NOTHING, REASON_SOCKS_VERSION, "protocol" },
		{ VERDICT_BY_NOTHING, REASON_PROXY_HEADER_BAD, "protocol" },
		{ VERDICT_BY_NOTHING, REASON_INTERNAL, "proxy" },
		{ VERDICT_BY_NOTHING, REASON_NOT_READY, "control" },
		{ VERDICT_BY_NOTHING, REASON_AUDIT_BACKPRESSURE, "control" },
		{ VERDICT_BY_NOTHING, REASON_AUTH_REQUIRED, "identity" },
		{ VERDICT_BY_NOTHING, REASON_LEASE_AMBIGUOUS, "identity" },
		{ VERDICT_BY_NOTHING, REASON_LEASE_UNKNOWN, "lease" },
		{ VERDICT_BY_NOTHING, REASON_SCOPE_NONE, "lease" },
		{ VERDICT_BY_NOTHING, REASON_LIMIT_CONNECTIONS, "limits" },
		{ VERDICT_BY_NOTHING, REASON_LIFETIME, "limits" },
		{ VERDICT_BY_NOTHING, REASON_NAME_INVALID, "address" },
		{ VERDICT_BY_NOTHING, REASON_DNS_BUDGET, "lease" },
		{ VERDICT_BY_NOTHING, REASON_DNS_NXDOMAIN, "network" },
		{ VERDICT_BY_NOTHING, REASON_DNS_TIMEOUT, "network" },
		{ VERDICT_BY_NOTHING, REASON_GEO_DENIED, "lease" },
		{ VERDICT_BY_NOTHING, REASON_UPSTREAM_TIMEOUT, "network" },
		{ VERDICT_BY_LEASE, REASON_FIRST_FLIGHT_TIMEOUT, "protocol" },
		{ VERDICT_BY_LEASE, REASON_RESPONSE_MALFORMED, "protocol" },
		{ VERDICT_BY_LEASE, REASON_REDIRECT_DENIED, "lease" },
		{ VERDICT_BY_NOTHING, REASON_POLICY_CHANGED, "lease" },
		{ VERDICT_BY_LEASE, REASON_RULE_DENY, "lease" },
		{ VERDICT_BY_RULESET, REASON_RULE_DENY, "ruleset" },
		{ VERDICT_BY_CEILING, REASON_CEILING_DENY, "ceiling" },
		{ VERDICT_BY_NOTHING, REASON_NO_RULE, "lease" },
		{ VERDICT_BY_NOTHING, REASON_SPECIAL_ADDRESS, "address" },
		{ VERDICT_BY_NOTHING, REASON_CONTROL_STALE, "control" },
		{ VERDICT_BY_NOTHING, REASON_AUTH_FAILED, "identity" },
		{ VERDICT_BY_RULESET, REASON_UPSTREAM_REFUSED, "network" },
		{ VERDICT_BY_LEASE, REASON_TLS_SNI_MISSING, "protocol" },
		{ VERDICT_BY_NOTHING, REASON_RESOURCE, "proxy" },
		{ VERDICT_BY_NOTHING, REASON_LIMIT_RATE, "limits" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct record record = record_of("f.test", 443, rows[i].why);
		char json[REFUSAL_JSON_MAX];
		struct refusal r;

		record.verdict.source = rows[i].source;
		snprintf(record.verdict.rule_id, sizeof(record.verdict.rule_id), "r3");
		refusal_from_record(&record, NULL, &r);
		cr_expect_str_eq(r.rule_kind, rows[i].kind, "row %zu", i);
		cr_assert_gt(refusal_json(&r, true, json, sizeof(json)), 0);
		cr_expect_not_null(strstr(json, "\"id\":\"r3\""));
	}
}

Test(refusal, tells_people_what_was_tried_and_what_to_do)
{
	struct record record = record_of("f.test", 443, REASON_NAME_INVALID);
	struct refusal r;

	record.target_known = false;
	snprintf(record.target_raw, sizeof(record.target_raw), "a b");
	refusal_from_record(&record, NULL, &r);
	cr_expect_str_eq(r.what, "The run tried to reach 'a b' in a way that cannot be let through.");
	cr_expect_str_eq(r.why, "The name is not a valid host name.");
	record.target_raw[0] = '\0';
	refusal_from_record(&record, NULL, &r);
	cr_expect_str_eq(r.what, "The run tried to reach a destination in a way that cannot be let through.");

	record = record_of("f.test", 443, REASON_REDIRECT_DENIED);
	snprintf(record.redirect_to, sizeof(record.redirect_to), "https://evil.test/x");
	refusal_from_record(&record, NULL, &r);
	cr_expect_str_eq(r.what, "The run was redirected to https://evil.test/x, which its network policy "
				 "does not allow.");
	record.verdict.reason = REASON_NO_RULE;
	refusal_from_record(&record, NULL, &r);
	cr_expect_not_null(strstr(r.what, "https://f.test,"));
	record.verdict.reason = REASON_REDIRECT_DENIED;
	record.redirect_to[0] = '\0';
	refusal_from_record(&record, NULL, &r);
	cr_expect_not_null(strstr(r.what, "https://f.test,"));

	record = record_of("f.test", 443, REASON_RULE_DENY);
	refusal_from_record(&record, NULL, &r);
	cr_expect_str_eq(r.why, "Rule without an id of lease ls_01JDX8M3 (revision 17) denies f.test.");
	cr_expect_str_eq(r.suggested_fix, "Use another destination, or have the deny rule taken back.");
	snprintf(record.verdict.rule_id, sizeof(record.verdict.rule_id), "r3");
	refusal_from_record(&record, NULL, &r);
	cr_expect_str_eq(r.why, "Rule r3 of lease ls_01JDX8M3 (revision 17) denies f.test.");
}

Test(refusal, advises_by_kind_where_no_rule_would_help)
{
	static const struct {
		enum reason why;
		const char *word; /* of the advice */
	} rows[] = {
		{ REASON_CEILING_DENY, "ceiling" },  { REASON_OWN_ADDRESS, "never opened" },
		{ REASON_METADATA_ADDRESS, "never opened" }, { REASON_SPECIAL_ADDRESS, "public host name" },
		{ REASON_CONTROL_STALE, "confirmed" }, { REASON_AUTH_FAILED, "credentials" },
		{ REASON_LIMIT_RATE, "limits" },     { REASON_TLS_SNI_MISSING, "protocol" },
		{ REASON_DNS_NXDOMAIN, "not the cause" }, { REASON_RESOURCE, "operator" },
		{ REASON_LEASE_EXPIRED, "its lease" }, { REASON_NO_RULE, "its lease" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct record record = record_of("f.test", 443, rows[i].why);
		struct refusal r;

		if (rows[i].why == REASON_CEILING_DENY)
			record.verdict.source = VERDICT_BY_CEILING;
		refusal_from_record(&record, NULL, &r);
		cr_expect_not_null(strstr(r.suggested_fix, rows[i].word), "row %zu: %s", i, r.suggested_fix);
	}
}

/* Do strings end, and are all braces outside them closed at the very end? */
static bool is_one_object(const char *json)
{
	int depth = 0;
	bool inside = false;

	for (; *json != '\0'; json++) {
		if (inside && *json == '\\')
			json++;
		else if (*json == '"')
			inside = !inside;
		else if (!inside && *json == '{')
			depth++;
		else if (!inside && *json == '}' && --depth == 0)
			return json[1] == '\0';
	}
	return false;
}

Test(refusal, stays_one_object_of_plain_ascii_whatever_was_asked)
{
	struct record record = record_of("f.test", 443, REASON_NAME_INVALID);
	char json[REFUSAL_JSON_MAX];
	struct refusal r;
	size_t len;

	record.target_known = false;
	memset(record.target_raw, '\\', sizeof(record.target_raw) - 1);
	record.target_raw[0] = '"';
	memset(record.redirect_to, '"', sizeof(record.redirect_to) - 1);
	for (int why = REASON_ALLOWED + 1; why < REASON_COUNT; why++) {
		record.verdict.reason = (enum reason)why;
		refusal_from_record(&record, NULL, &r);
		cr_expect_not(r.has_fix);
		len = refusal_json(&r, true, json, sizeof(json));
		cr_assert(len > 0 && json[0] == '{' && json[len - 1] == '}' && json[len] == '\0');
		cr_assert(is_one_object(json), "%s", json);
		for (size_t i = 0; i < len; i++)
			cr_assert(json[i] >= ' ' && json[i] <= '~');
	}
	record.verdict.reason = REASON_NAME_INVALID;
	snprintf(record.target_raw, sizeof(record.target_raw), "\"\\~ \x01\x7f\xff");
	refusal_from_record(&record, NULL, &r);
	len = refusal_json(&r, true, json, sizeof(json));
	for (size_t i = 0; i < len; i++)
		cr_assert(json[i] >= ' ' && json[i] <= '~');
	cr_expect_not_null(strstr(json, "reach '\\\"\\\\~ \\u0001\\u007f\\u00ff' in"), "%s", json);
	cr_expect(is_one_object(json));
}

Test(refusal, writes_the_whole_object_or_nothing)
{
	struct record record = record_of("f.test", 443, REASON_NO_RULE);
	char json[REFUSAL_JSON_MAX], whole[REFUSAL_JSON_MAX];
	struct refusal r;
	size_t len;

	refusal_from_record(&record, NULL, &r);
	len = refusal_json(&r, true, whole, sizeof(whole));
	for (size_t cap = 0; cap <= len; cap++) {
		memset(json, 'x', sizeof(json));
		cr_assert_eq(refusal_json(&r, true, json, cap), 0, "%zu", cap);
		cr_assert_eq(json[cap], 'x');
		cr_assert(cap == 0 || json[0] == '\0');
	}
	cr_expect_eq(refusal_json(&r, true, json, len + 1), len);
	cr_expect_str_eq(json, whole);
}
