/* The four questions, over small policies: order of the reasons, what goes on from phase to phase, and that doubt refuses. */
#include "judge/judge.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "segment_builder.h"
#include "verdict_text.h"

#define NOW 1000000u

static struct built_store store;
static struct lease_table *table;
static struct judge judge;
static struct own_addresses *own;
static struct addr_nat64 nat64;
static struct addr_site site;

static uint32_t slot_of(void *arg, struct text id)
{
	(void)arg;
	(void)id;
	return 5;
}

static void use_flags(const char *ceiling, const char *rules, uint32_t flags)
{
	static char text[4096];
	const char *leases[] = { text, NULL };
	struct prefix own_prefix;
	struct snapshot *snapshot;

	snprintf(text, sizeof(text), "lease ls_1\n%s", rules);
	built_store_init(&store);
	snapshot = built_snapshot(&store, 42, flags, ceiling, leases);
	cr_assert_eq(lease_table_create(snapshot, slot_of, NULL, &table), ERR_OK);
	cr_assert(prefix_parse(text_of("198.41.0.4"), &own_prefix));
	own = own_addresses_create(&own_prefix, 1);
	cr_assert(prefix_parse(text_of("64:ff9b::/96"), &nat64.prefix));
	site = (struct addr_site){ .own = own, .nat64 = &nat64, .nat64_count = 1 };
	judge = (struct judge){
		.snapshot = snapshot, .lease = lease_table_find(table, text_of("ls_1")),
		.generation = 8, .wall_ms = NOW, .site = &site,
	};
	snapshot_unref(snapshot);
}

static void use(const char *ceiling, const char *rules)
{
	use_flags(ceiling, rules, 0);
}

static void drop(void)
{
	lease_table_unref(table);
	own_addresses_unref(own);
	built_store_finish(&store);
}

static struct target target_of(const char *text)
{
	const char *colon = strrchr(text, ':');
	struct target t;
	char host[300];

	snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	cr_assert_eq(target_from_host(text_of(host), (uint16_t)strtoul(colon + 1, NULL, 10), &t),
		     TARGET_OK, "%s", host);
	return t;
}

static struct addr address_of(const char *text)
{
	struct addr a;

	cr_assert(addr_parse(text_of(text), &a), "%s", text);
	return a;
}

static struct verdict request(const char *text)
{
	struct target t = target_of(text);

	return judge_request(&judge, &t);
}

static const char *text_of_verdict(struct verdict v)
{
	static char text[VERDICT_TEXT_MAX];

	return verdict_text(&v, text);
}

static void expect(struct verdict v, const char *expected, const char *what)
{
	cr_expect_str_eq(text_of_verdict(v), expected, "%s: %s, not %s", what, text_of_verdict(v),
			 expected);
}

static struct verdict address_after(struct verdict before, const char *target, const char *address)
{
	struct target t = target_of(target);
	struct addr a = address_of(address);
	struct addr_finding finding;
	struct permit permit, untouched;
	struct verdict v;

	memset(&permit, 0x5a, sizeof(permit));
	untouched = permit;
	v = judge_address(&judge, &t, &before, &a, &finding, &permit);
	if (v.allow) {
		cr_expect(addr_equal(&permit.to.addr, &a) && permit.to.port == t.port);
		cr_expect(permit.slot == 5 && permit.generation == 8 && permit.snapshot == 42);
	} else {
		cr_expect_eq(memcmp(&permit, &untouched, sizeof(permit)), 0);
	}
	return v;
}

static struct verdict address(const char *target, const char *at)
{
	return address_after(request(target), target, at);
}

Test(judge, asks_for_the_lease_before_the_target)
{
	static const struct {
		const char *lines;
		uint32_t flags;
		const char *expected;
	} rows[] = {
		{ "", 0, "allowed https" },
		{ "nbf 1000001\n", 0, "lease_not_yet" },
		{ "exp 1000000\n", 0, "lease_expired" },
		{ "state suspended\n", 0, "lease_suspended" },
		{ "state revoked\n", 0, "lease_revoked" },
		{ "state invalid\n", 0, "policy_invalid" },
		{ "state ruleset_missing\n", 0, "ruleset_missing" },
		{ "scope undeclared\n", 0, "scope_undeclared" },
		{ "scope none\n", 0, "scope_none" },
		{ "option report\n", 0, "policy_invalid" },
		{ "option report\nscope none\n", 0, "policy_invalid" },
		{ "option report\nstate revoked\n", 0, "lease_revoked" },
		{ "option report\n", LAYOUT_ROOT_REPORT_ALLOWED, "allowed https" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct target t = target_of("a.test:443");
		struct judge_stream seen = { .scheme_known = true, .scheme = SCHEME_HTTPS };
		struct verdict admitted = { .allow = true, .schemes = BIT(SCHEME_HTTPS) };
		char text[200];

		snprintf(text, sizeof(text), "%sallow https://a.test\n", rows[i].lines);
		use_flags("allow any\n", text, rows[i].flags);
		expect(request("a.test:443"), rows[i].expected, rows[i].lines);
		expect(judge_redirect(&judge, SCHEME_HTTPS, &t), rows[i].expected, rows[i].lines);
		/* A lease that ended refuses what an earlier verdict had allowed, too. */
		if (strncmp(rows[i].expected, "allowed", 7) != 0) {
			expect(address_after(admitted, "a.test:443", "9.9.9.9"), rows[i].expected, "address");
			expect(judge_stream(&judge, &t, &admitted, &seen), rows[i].expected, "stream");
		}
		drop();
	}
}

Test(judge, refuses_when_there_is_nothing_to_judge_by)
{
	static const struct judge nothing;
	struct target t = target_of("a.test:443");
	struct addr a = address_of("9.9.9.9");
	struct verdict admitted = { .allow = true, .schemes = BIT(SCHEME_HTTPS) };
	struct judge_stream seen = { 0 };
	struct addr_finding finding;
	struct permit permit;

	expect(judge_request(&nothing, &t), "internal", "request");
	expect(judge_address(&nothing, &t, &admitted, &a, &finding, &permit), "internal", "address");
	expect(judge_stream(&nothing, &t, &admitted, &seen), "internal", "stream");
	expect(judge_redirect(&nothing, SCHEME_HTTPS, &t), "internal", "redirect");
	use("allow any\n", "allow https://a.test\n");
	{
		struct judge no_lease = judge, no_snapshot = judge;

		no_lease.lease = NULL;
		no_snapshot.snapshot = NULL;
		expect(judge_request(&no_lease, &t), "internal", "no lease");
		expect(judge_request(&no_snapshot, &t), "internal", "no snapshot");
	}
	drop();
}

Test(judge, goes_on_only_from_a_request_that_was_allowed)
{
	struct judge_stream seen = { .scheme_known = true, .scheme = SCHEME_HTTPS };
	struct target t = target_of("a.test:443");
	struct verdict refused = { .reason = REASON_ALLOWED, .schemes = BIT(SCHEME_HTTPS) };

	use("allow any\n", "allow https://a.test\n");
	expect(address_after(refused, "a.test:443", "9.9.9.9"), "internal", "address");
	expect(judge_stream(&judge, &t, &refused, &seen), "internal", "stream");
	drop();
}

/* Cases C057, C059, C063, C064, C065. */
Test(judge, judges_a_literal_by_class_before_rule)
{
	static const struct {
		const char *target, *expected;
	} rows[] = {
		{ "9.9.9.9:443", "literal_not_listed" },
		{ "203.0.113.77:443", "special_address" },
		{ "[::1]:443", "special_address" },
		{ "::ffff:127.0.0.1:443", "special_address" },
		{ "[fd12::1]:443", "special_address" },
		{ "[::ffff:10.0.0.1]:443", "special_address" },
		{ "169.254.169.254:80", "metadata_address" },
		{ "198.41.0.4:443", "own_address" },
		{ "[64:ff9b::c629:4]:443", "own_address" },
		{ "8.8.8.8:53", "allowed tcp" },
	};

	use("allow any\n",
	    "allow https://allowed.test\nallow http://203.0.113.77:443\nallow tcp://[::/0]:1-65535\n"
	    "allow tcp://8.8.8.8:53\nallow tcp://198.41.0.4:443\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect(request(rows[i].target), rows[i].expected, rows[i].target);
	expect(address("8.8.8.8:53", "8.8.8.8"), "allowed tcp", "a literal's own address");
	expect(address("8.8.8.8:53", "8.8.4.4"), "internal", "another address for a literal");
	drop();
}

/* Case C119. */
Test(judge, refuses_special_names_unless_the_ceiling_names_them)
{
	static const struct {
		const char *target, *expected;
	} rows[] = {
		{ "metadata.google.internal:80", "name_special" },
		{ "instance-data:80", "name_special" },
		{ "printer.local:80", "name_special" },
		{ "localhost:80", "name_special" },
		{ "intranet:80", "name_special" },
		{ "wiki.internal:80", "allowed http" },
		{ "a.test:80", "allowed http" },
	};

	use("allow any\nexception name for wiki.internal\nexception name for metadata.google.internal\n"
	    "exception name for instance-data\n",
	    "allow http://*.internal\nallow http://*.local\nallow http://localhost\n"
	    "allow http://instance-data\nallow http://intranet\nallow http://*.test\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect(request(rows[i].target), rows[i].expected, rows[i].target);
	drop();
}

/* Cases C115 to C125. */
Test(judge, judges_each_resolved_address)
{
	static const struct {
		const char *address, *expected;
	} rows[] = {
		{ "9.9.9.9", "allowed https" },		   { "2620:fe::fe", "allowed https" },
		{ "168.63.129.16", "metadata_address" },   { "169.254.169.254", "metadata_address" },
		{ "198.41.0.4", "own_address" },	   { "10.9.0.1", "allowed https" },
		{ "10.10.0.1", "special_address" },	   { "127.0.0.2", "special_address" },
		{ "::ffff:10.9.0.1", "special_address" },  { "64:ff9b::909:909", "allowed https" },
		{ "64:ff9b::a09:1", "allowed https" },	   { "64:ff9b::a0a:1", "special_address" },
		{ "64:ff9b::c629:4", "own_address" },	   { "64:ff9b::a9fe:a9fe", "metadata_address" },
		{ "8.8.8.8", "rule_deny by d" },	   { "64:ff9b::808:808", "rule_deny by d" },
	};

	use("allow any\nexception 10.9.0.0/16 for a.test\nexception 169.254.0.0/16 for a.test\n"
	    "exception 198.41.0.0/24 for a.test\n",
	    "allow https://a.test\ndeny 8.8.8.0/24 as d\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect(address("a.test:443", rows[i].address), rows[i].expected, rows[i].address);
	drop();
}

Test(judge, always_says_what_the_address_is)
{
	struct target t = target_of("a.test:443");
	struct addr a = address_of("10.1.1.1");
	struct verdict before = { .reason = REASON_NO_RULE };
	struct addr_finding finding = { .class = ADDR_CLASS_PUBLIC };
	struct permit permit;

	use("allow any\n", "allow https://a.test\n");
	(void)judge_address(&judge, &t, &before, &a, &finding, &permit);
	cr_expect_eq(finding.class, ADDR_CLASS_PRIVATE);
	drop();
}

Test(judge, keeps_the_stricter_conditions_of_request_and_address)
{
	struct verdict before;

	use("allow any\n", "allow https://a.test pin=connection\n");
	before = request("a.test:443");
	expect(address_after(before, "a.test:443", "9.9.9.9"), "allowed https pin=connection", "same");
	before.pin = RULE_PIN_LEASE;
	drop();
	use("allow any\n", "option ech_refuse\nallow https://a.test pin=ttl\n");
	expect(address_after(before, "a.test:443", "9.9.9.9"), "allowed https pin=lease ech",
	       "stricter since");
	before.pin = RULE_PIN_LEASE;
	before.ech_refuse = before.place_required = true;
	expect(address_after(before, "a.test:443", "9.9.9.9"), "allowed https pin=lease ech place",
	       "stricter before");
	before.would_deny = true;
	before.reason = REASON_NO_RULE;
	expect(address_after(before, "a.test:443", "9.9.9.9"),
	       "would_deny no_rule https pin=lease ech place", "reported before");
	/* The policy of the request promised other bytes. */
	before.schemes = BIT(SCHEME_SSH);
	expect(address_after(before, "a.test:443", "9.9.9.9"), "policy_changed", "other schemes");
	drop();
}

Test(judge, lets_no_place_pass_that_no_database_knows)
{
	use("allow any\n", "allow https://a.test country=DE\n");
	expect(request("a.test:443"), "allowed https place", "request");
	expect(address("a.test:443", "9.9.9.9"), "geo_unavailable", "address");
	drop();
}

struct stream_row {
	const char *target;
	int scheme;       /* enum scheme, or -1: none of the typed ones */
	const char *name; /* on the wire; NULL: malformed, "": missing */
	const char *flags; /* e: ECH, o: older than TLS 1.2 */
	const char *expected;
};

static void expect_streams(const struct stream_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct stream_row *r = &rows[i];
		struct target t = target_of(r->target);
		struct verdict before = judge_request(&judge, &t);
		struct judge_stream seen = {
			.scheme_known = r->scheme >= 0,
			.scheme = r->scheme >= 0 ? (enum scheme)r->scheme : SCHEME_HTTPS,
			.name_missing = r->name != NULL && r->name[0] == '\0',
			.has_ech = strchr(r->flags, 'e') != NULL,
			.tls12_offered = strchr(r->flags, 'o') == NULL,
		};
		char what[300];

		cr_assert(before.allow, "%s", r->target);
		if (r->name != NULL && r->name[0] != '\0') {
			seen.name_known = true;
			cr_assert_eq(dname_parse(text_of(r->name), DNAME_FINAL_DOT_REFUSE, &seen.name), DNAME_OK);
		}
		snprintf(what, sizeof(what), "row %zu of %s", i, r->target);
		expect(judge_stream(&judge, &t, &before, &seen), r->expected, what);
	}
}

Test(judge, wants_bytes_and_name_to_be_what_the_candidates_say)
{
	static const struct stream_row rows[] = {
		{ "a.test:443", SCHEME_HTTPS, "a.test", "", "allowed https by s" },
		{ "a.test:443", SCHEME_HTTPS, "A.TEST", "", "allowed https by s" },
		{ "a.test:443", SCHEME_HTTPS, "b.test", "", "tls_sni_mismatch by s" },
		{ "a.test:443", SCHEME_HTTPS, "x.a.test", "", "tls_sni_mismatch by s" },
		{ "a.test:443", SCHEME_HTTPS, "", "", "tls_sni_missing by s" },
		{ "a.test:443", SCHEME_HTTPS, NULL, "", "tls_malformed by s" },
		{ "a.test:443", SCHEME_HTTPS, "a.test", "o", "tls_malformed by s" },
		{ "a.test:443", SCHEME_HTTPS, "", "o", "tls_malformed by s" },
		{ "a.test:443", SCHEME_HTTPS, "a.test", "e", "allowed https by s" },
		{ "a.test:443", SCHEME_HTTP, "a.test", "", "scheme_mismatch" },
		{ "a.test:443", SCHEME_SSH, NULL, "", "scheme_mismatch" },
		{ "a.test:443", -1, NULL, "", "scheme_mismatch" },
		{ "ech.test:443", SCHEME_HTTPS, "ech.test", "e", "tls_ech" },
		{ "ech.test:443", SCHEME_HTTPS, "b.test", "e", "tls_sni_mismatch" },
		{ "ech.test:443", SCHEME_HTTPS, "ech.test", "", "allowed https ech" },
		{ "h.test:80", SCHEME_HTTP, "h.test", "", "allowed http" },
		{ "h.test:80", SCHEME_HTTP, "i.test", "", "http_host_mismatch" },
		{ "h.test:80", SCHEME_HTTP, "", "", "http_host_missing" },
		{ "h.test:80", SCHEME_HTTP, NULL, "", "http_malformed" },
		{ "h.test:80", SCHEME_HTTPS, "h.test", "", "scheme_mismatch" },
		{ "w.test:80", SCHEME_HTTP, "w.test", "", "allowed ws" },
		{ "hw.test:80", SCHEME_HTTP, "hw.test", "", "allowed http,ws" },
		{ "9.9.9.9:80", SCHEME_HTTP, NULL, "", "allowed http" },
		{ "9.9.9.9:80", SCHEME_HTTPS, "a.test", "", "scheme_mismatch" },
		{ "git.test:22", SCHEME_SSH, NULL, "", "allowed ssh" },
		{ "git.test:22", SCHEME_HTTP, "git.test", "", "scheme_mismatch" },
		{ "db.test:5432", -1, NULL, "", "allowed tcp" },
		{ "db.test:5432", SCHEME_HTTPS, "other.test", "eo", "allowed tcp" },
		{ "two.test:443", SCHEME_HTTPS, "two.test", "", "allowed https" },
		{ "two.test:443", SCHEME_SSH, NULL, "", "allowed ssh" },
		{ "two.test:443", -1, NULL, "", "scheme_mismatch" },
		{ "hidden.test:443", -1, NULL, "", "scheme_mismatch" },
	};

	use("allow any\n",
	    "allow https://a.test as s\nallow https://ech.test ech=refuse\nallow http://h.test\n"
	    "allow ws://w.test\nallow http://hw.test\nallow ws://hw.test\nallow http://9.9.9.9\n"
	    "allow ssh://git.test\nallow tcp://db.test:5432\nallow https://two.test\n"
	    "allow ssh://two.test:443\nallow https://hidden.test\nallow tcp://hidden.test:443\n");
	expect_streams(rows, ARRAY_LEN(rows));
	drop();
}

Test(judge, opens_a_websocket_where_the_ceiling_takes_nothing_else)
{
	static const struct stream_row rows[] = {
		{ "hw.test:80", SCHEME_HTTP, "hw.test", "", "allowed ws" },
		{ "hw.test:80", SCHEME_HTTP, "other.test", "", "http_host_mismatch" },
		{ "hw.test:80", SCHEME_HTTPS, "hw.test", "", "scheme_mismatch" },
	};

	use("allow ws://hw.test\n", "allow http://hw.test\nallow ws://hw.test\n");
	expect_streams(rows, ARRAY_LEN(rows));
	drop();
}

Test(judge, lets_a_reporting_lease_pass_other_bytes_where_the_ceiling_takes_them)
{
	static const struct stream_row rows[] = {
		{ "a.test:443", SCHEME_SSH, NULL, "", "would_deny scheme_mismatch tcp by s" },
		{ "a.test:443", -1, NULL, "", "would_deny scheme_mismatch tcp by s" },
		{ "other.test:443", -1, NULL, "", "would_deny no_rule tcp" },
		{ "d.test:443", SCHEME_SSH, NULL, "", "would_deny rule_deny tcp by d" },
		/* A name that lies is no question of rules. */
		{ "a.test:443", SCHEME_HTTPS, "b.test", "", "tls_sni_mismatch by s" },
	};
	static const struct stream_row typed[] = {
		{ "a.test:443", SCHEME_SSH, NULL, "", "scheme_mismatch" },
		{ "a.test:443", -1, NULL, "", "scheme_mismatch" },
		{ "other.test:443", SCHEME_HTTPS, "other.test", "", "would_deny no_rule https" },
		{ "other.test:443", SCHEME_SSH, NULL, "", "scheme_mismatch" },
	};

	use_flags("allow any\n",
		  "option report\nallow https://a.test as s\nallow https://d.test\ndeny d.test as d\n",
		  LAYOUT_ROOT_REPORT_ALLOWED);
	expect_streams(rows, ARRAY_LEN(rows));
	drop();
	use_flags("allow https://*.test\n", "option report\nallow https://a.test as s\n",
		  LAYOUT_ROOT_REPORT_ALLOWED);
	expect_streams(typed, ARRAY_LEN(typed));
	drop();
}

Test(judge, judges_a_stream_again_under_a_policy_that_changed)
{
	struct target t = target_of("a.test:443");
	struct judge_stream seen = { .scheme_known = true, .scheme = SCHEME_HTTPS, .name_known = true,
				     .tls12_offered = true, .name = t.name };
	struct verdict before = { .allow = true, .schemes = BIT(SCHEME_HTTPS), .pin = RULE_PIN_TTL };

	use("allow any\n", "allow ssh://a.test:443\n");
	expect(judge_stream(&judge, &t, &before, &seen), "scheme_mismatch", "typed otherwise now");
	drop();
	use("allow any\n", "deny a.test\nallow https://a.test\n");
	expect(judge_stream(&judge, &t, &before, &seen), "rule_deny", "denied now");
	drop();
	use("allow any\n", "allow https://a.test\nallow ssh://a.test:443\n");
	before.schemes = BIT(SCHEME_SSH);
	expect(judge_stream(&judge, &t, &before, &seen), "scheme_mismatch", "allowed now, but not admitted");
	drop();
	before.schemes = BIT(SCHEME_TCP);
	use("allow any\n", "allow https://a.test\n");
	expect(judge_stream(&judge, &t, &before, &seen), "scheme_mismatch", "opaque before, typed now");
	drop();
}

Test(judge, judges_redirects_by_scheme_host_and_port)
{
	static const struct {
		enum scheme scheme;
		const char *target, *expected;
	} rows[] = {
		{ SCHEME_HTTPS, "a.test:443", "allowed https" },
		{ SCHEME_HTTP, "a.test:443", "scheme_not_allowed" },
		{ SCHEME_HTTP, "a.test:80", "port_not_allowed" },
		{ SCHEME_HTTPS, "b.test:443", "no_rule" },
		{ SCHEME_HTTPS, "evil.a.test:443", "no_rule" },
		{ SCHEME_HTTP, "w.test:80", "allowed ws" },
		{ SCHEME_HTTPS, "o.test:5", "allowed tcp" },
		{ SCHEME_HTTP, "169.254.169.254:80", "metadata_address" },
		{ SCHEME_HTTP, "9.9.9.9:80", "literal_not_listed" },
		{ SCHEME_HTTP, "localhost:80", "name_special" },
		{ SCHEME_HTTPS, "c.test:443", "ceiling_deny" },
		{ SCHEME_HTTPS, "d.test:443", "rule_deny" },
	};

	use("allow any\ndeny c.test\n",
	    "allow https://a.test\nallow ws://w.test\nallow tcp://o.test:5\nallow https://c.test\n"
	    "deny d.test\nallow https://d.test\nallow http://localhost\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct target t = target_of(rows[i].target);

		expect(judge_redirect(&judge, rows[i].scheme, &t), rows[i].expected, rows[i].target);
	}
	drop();
}

/* Case C284: what is refused by policy is refused alike, whatever stands behind it. */
Test(judge, refuses_by_policy_with_one_reply)
{
	static const char *const refused[] = { "nowhere.test:443", "a.test:80", "d.test:443",
					       "10.0.0.1:443", "box.internal:443", "9.9.9.9:443" };

	use("allow any\n", "allow https://a.test\ndeny d.test\n");
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		cr_expect_eq(reason_socks_reply(request(refused[i]).reason), 0x02, "%s", refused[i]);
	cr_expect_eq(reason_socks_reply(address("a.test:443", "10.0.0.1").reason), 0x02);
	drop();
}

/* Case C286. */
Test(judge, allocates_nothing_so_that_nothing_fails_half_way)
{
	struct judge_stream seen = { .scheme_known = true, .scheme = SCHEME_HTTPS, .tls12_offered = true };
	struct target t = target_of("a.test:443");
	struct verdict v;

	use("allow any\n", "allow https://a.test\n");
	alloc_fail_at(1);
	v = request("a.test:443");
	cr_expect(address("a.test:443", "9.9.9.9").allow);
	cr_expect_not(address("a.test:443", "10.0.0.1").allow);
	cr_expect_not(judge_stream(&judge, &t, &v, &seen).allow);
	cr_expect(judge_redirect(&judge, SCHEME_HTTPS, &t).allow);
	cr_expect_eq(alloc_count(), 0);
	alloc_fail_at(0);
	drop();
}
