/* Tables of decisions over small policies: what allows, what refuses, with which obligations, by which rule. */
#include "policy/match.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "segment_builder.h"
#include "verdict_text.h"

static struct built_store store;
static struct snapshot *snapshot;

static void use(const char *ceiling, const char *rules, uint32_t flags)
{
	static char text[4096];
	const char *leases[] = { text, NULL };

	snprintf(text, sizeof(text), "lease ls_1\n%s", rules);
	built_store_init(&store);
	snapshot = built_snapshot(&store, 42, flags, ceiling, leases);
}

static void drop(void)
{
	snapshot_unref(snapshot);
	built_store_finish(&store);
}

/* Facts of "host:port", with "scheme://" in front when it is known. */
static struct facts facts_of(enum facts_phase phase, const char *text)
{
	struct facts f = { .phase = phase, .slot = 3, .generation = 8 };
	const char *sep = strstr(text, "://"), *colon;
	char host[300];

	if (sep != NULL) {
		f.scheme_known = true;
		cr_assert(scheme_parse((struct text){ text, (size_t)(sep - text) }, &f.scheme));
		text = sep + 3;
	}
	colon = strrchr(text, ':');
	snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	cr_assert_eq(target_from_host(text_of(host), (uint16_t)strtoul(colon + 1, NULL, 10), &f.target),
		     TARGET_OK, "%s", host);
	if (f.target.kind == TARGET_NAME) {
		f.name_class = special_names_classify(&f.target.name);
	} else {
		f.address_known = true;
		f.address = f.target.addr;
		addr_classify(&f.address, NULL, &f.finding);
	}
	return f;
}

static void know_address(struct facts *f, const char *address)
{
	f->phase = PHASE_ADDRESS;
	f->address_known = true;
	cr_assert(addr_parse(text_of(address), &f->address));
	addr_classify(&f->address, NULL, &f->finding);
}

static const char *decide(const struct facts *f)
{
	static char text[VERDICT_TEXT_MAX];
	const struct snapshot_lease *lease = snapshot_lease_find(snapshot, text_of("ls_1"));
	struct permit permit, untouched;
	struct verdict v;

	memset(&permit, 0xa5, sizeof(permit));
	untouched = permit;
	v = policy_match(snapshot, lease, f, NULL, &permit);
	cr_expect_eq(v.snapshot, 42);
	cr_expect_eq(v.allow && f->phase == PHASE_ADDRESS,
		     memcmp(&permit, &untouched, sizeof(permit)) != 0);
	return verdict_text(&v, text);
}

struct row {
	const char *target, *expected;
};

static void expect_requests(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct facts f = facts_of(PHASE_REQUEST, rows[i].target);

		cr_expect_str_eq(decide(&f), rows[i].expected, "%s: %s, not %s", rows[i].target,
				 decide(&f), rows[i].expected);
	}
}

struct address_row {
	const char *target, *address, *expected;
};

static void expect_addresses(const struct address_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct facts f = facts_of(PHASE_ADDRESS, rows[i].target);

		know_address(&f, rows[i].address);
		cr_expect_str_eq(decide(&f), rows[i].expected, "%s at %s: %s, not %s", rows[i].target,
				 rows[i].address, decide(&f), rows[i].expected);
	}
}

/* Cases C066 to C072. */
Test(match, lets_a_wildcard_cover_labels_below_its_name_and_nothing_else)
{
	static const struct row rows[] = {
		{ "wild.test:443", "no_rule" },
		{ "a.wild.test:443", "allowed https by w" },
		{ "a.b.wild.test:443", "allowed https by w" },
		{ "evilwild.test:443", "no_rule" },
		{ "xwild.test:443", "no_rule" },
		{ "a.wild.test.evil.test:443", "no_rule" },
		{ "allowed.test.evil.test:443", "no_rule" },
		{ "allowedxtest:443", "name_special" },
		{ "allowedxtest.evil.test:443", "no_rule" },
		{ "sub.allowed.test:443", "no_rule" },
		{ "allowed.test:443", "allowed https by a" },
	};

	use("allow any\n", "allow https://allowed.test as a\nallow https://*.wild.test as w\n", 0);
	expect_requests(rows, ARRAY_LEN(rows));
	drop();
}

Test(match, says_how_much_of_a_name_its_narrowest_wildcard_leaves_open)
{
	static const struct {
		const char *target;
		size_t free_len;
	} rows[] = { { "a.wild.test:443", 1 },	  { "abc.wild.test:443", 3 },	{ "a.b.wild.test:443", 3 },
		     { "x.deep.wild.test:443", 1 }, { "exact.wild.test:443", 0 }, { "allowed.test:443", 0 } };

	use("allow any\n",
	    "allow https://allowed.test\nallow https://*.wild.test\nallow https://*.deep.wild.test\nallow https://exact.wild.test\n", 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct facts f = facts_of(PHASE_REQUEST, rows[i].target);
		struct verdict v = policy_match(snapshot, snapshot_lease_find(snapshot, text_of("ls_1")), &f, NULL, NULL);

		cr_expect(v.allow);
		cr_expect_eq(v.free_len, rows[i].free_len, "%s: %u", rows[i].target, v.free_len);
	}
	drop();
}

/* Case C077. */
Test(match, lets_deny_win_whatever_the_order_the_scheme_and_the_source)
{
	static const char *const orders[] = {
		"allow https://*.wild.test\nallow https://blocked.wild.test\n"
		"deny *.blocked.wild.test as d1\ndeny blocked.wild.test as d2\n",
		"deny *.blocked.wild.test as d1\ndeny blocked.wild.test as d2\n"
		"allow https://*.wild.test\nallow https://blocked.wild.test\n",
		"ruleset\nallow https://*.wild.test\nallow https://blocked.wild.test\nend\n"
		"ruleset\ndeny *.blocked.wild.test as d1\ndeny blocked.wild.test as d2\nend\n",
		"allow https://x.blocked.wild.test\nallow tcp://*.wild.test:1-65535\n"
		"deny *.blocked.wild.test:443 as d1\ndeny blocked.wild.test:400-500 as d2\n",
	};
	static const struct row rows[] = {
		{ "blocked.wild.test:443", "rule_deny by d2" },
		{ "x.blocked.wild.test:443", "rule_deny by d1" },
		{ "https://x.blocked.wild.test:443", "rule_deny by d1" },
		{ "ssh://x.blocked.wild.test:443", "rule_deny by d1" },
	};

	for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
		struct facts f = facts_of(PHASE_REQUEST, "other.wild.test:443");

		use("allow any\n", orders[i], 0);
		expect_requests(rows, ARRAY_LEN(rows));
		cr_expect_eq(strncmp(decide(&f), "allowed ", 8), 0);
		drop();
	}
}

Test(match, applies_a_deny_to_its_ports_or_without_any_to_all)
{
	static const struct row rows[] = {
		{ "a.test:22", "rule_deny" },	 { "a.test:443", "allowed tcp" },
		{ "b.test:443", "rule_deny" },	 { "b.test:0", "rule_deny" },
		{ "192.0.3.1:443", "rule_deny" }, { "192.0.3.9:443", "allowed tcp" },
	};

	use("allow any\n",
	    "allow tcp://*.test:1-65535\nallow tcp://192.0.3.0/24:1-65535\ndeny a.test:22-23\n"
	    "deny b.test\ndeny 192.0.3.0/29\n",
	    0);
	expect_requests(rows, ARRAY_LEN(rows));
	drop();
}

/* Cases C020 and C021. */
Test(match, tells_a_wrong_port_from_an_unknown_host)
{
	static const struct row rows[] = {
		{ "allowed.test:0", "port_not_allowed" },
		{ "allowed.test:22", "port_not_allowed" },
		{ "allowed.test:8443", "port_not_allowed" },
		{ "allowed.test:443", "allowed https" },
		{ "many.test:79", "port_not_allowed" },
		{ "many.test:80", "allowed http" },
		{ "many.test:8005", "allowed http" },
		{ "many.test:8011", "port_not_allowed" },
		{ "many.test:65535", "allowed http" },
		{ "other.test:0", "no_rule" },
		{ "other.test:443", "no_rule" },
		{ "9.9.9.9:443", "allowed tcp" },
		{ "9.9.9.9:80", "port_not_allowed" },
		{ "8.8.8.8:443", "literal_not_listed" },
		{ "[2606:4700::1]:443", "literal_not_listed" },
		{ "[2620:fe::fe]:443", "allowed ssh" },
	};

	use("allow any\n",
	    "allow https://allowed.test\nallow http://many.test:80,8000-8010,65535\n"
	    "allow tcp://9.9.9.0/24:443\nallow ssh://[2620:fe::/32]:443\n",
	    0);
	expect_requests(rows, ARRAY_LEN(rows));
	drop();
}

Test(match, allows_nothing_with_an_empty_list)
{
	static const struct row rows[] = { { "a.test:443", "no_rule" },
					   { "9.9.9.9:443", "literal_not_listed" } };

	use("allow any\n", "", 0);
	expect_requests(rows, ARRAY_LEN(rows));
	drop();
}

Test(match, lets_typed_candidates_hide_tcp_on_the_same_host_and_port)
{
	static const struct row rows[] = {
		{ "a.test:443", "allowed https,ssh by t1" },
		{ "https://a.test:443", "allowed https by t1" },
		{ "ssh://a.test:443", "allowed ssh by t1" },
		{ "http://a.test:443", "scheme_not_allowed" },
		{ "tcp://a.test:443", "scheme_not_allowed" },
		{ "a.test:444", "allowed tcp by o" },
		{ "https://a.test:444", "allowed tcp by o" },
		{ "w.test:80", "allowed ws by w" },
		{ "http://w.test:80", "allowed ws by w" },
		{ "ws://w.test:80", "allowed ws by w" },
		{ "https://w.test:80", "scheme_not_allowed" },
	};

	use("allow any\n",
	    "allow tcp://*.test:1-65535 as o\nallow https://a.test as t1\nallow ssh://*.test:443 as t2\n"
	    "allow ws://w.test as w\n",
	    0);
	/* t2 also covers w.test, but on another port. */
	expect_requests(rows, ARRAY_LEN(rows));
	drop();
}

Test(match, combines_options_to_the_strictest_of_the_candidates)
{
	static const struct row rows[] = {
		{ "plain.test:443", "allowed https" },
		{ "short.test:443", "allowed https pin=connection" },
		{ "long.test:443", "allowed https pin=lease" },
		{ "both.test:443", "allowed https" },
		{ "three.test:443", "allowed https pin=lease ech place" },
		{ "hidden.test:443", "allowed https" },
		{ "ceiling.test:443", "allowed https pin=lease ech place" },
		{ "ssh.ceiling.test:22", "allowed ssh" },
	};

	use("allow any\nallow https://ceiling.test pin=lease ech=refuse country=DE\n"
	    "allow https://ssh.ceiling.test:22 ech=refuse\n",
	    "allow https://plain.test\nallow https://short.test pin=connection\n"
	    "allow https://long.test pin=lease\nallow https://both.test pin=connection\n"
	    "ruleset\nallow https://both.test\nend\n"
	    "allow https://three.test pin=lease\nallow https://three.test ech=refuse\n"
	    "allow https://three.test country=DE\nallow https://hidden.test\n"
	    "allow tcp://hidden.test:443 pin=lease ech=refuse country=DE\n"
	    "allow https://ceiling.test\nallow ssh://ssh.ceiling.test\n",
	    0);
	expect_requests(rows, ARRAY_LEN(rows));
	drop();
	use("allow any\n", "option ech_refuse\nplaces country=DE\nallow https://plain.test\n", 0);
	expect_requests(&(struct row){ "plain.test:443", "allowed https ech place" }, 1);
	drop();
}

Test(match, intersects_with_the_ceiling_and_never_adds_to_the_lease)
{
	static const struct row rows[] = {
		{ "a.test:443", "allowed https" },
		{ "b.test:443", "ceiling_deny" },
		{ "only-ceiling.test:443", "no_rule" },
		{ "neither.test:443", "ceiling_deny" },
		{ "c.test:443", "ceiling_deny" },
		{ "d.test:443", "allowed https,ssh" },
		{ "e.test:443", "allowed https" },
		{ "f.test:443", "ceiling_deny" },
		{ "bad.test:443", "ceiling_deny by no" },
		{ "denied.test:443", "rule_deny" },
		{ "9.9.9.9:53", "allowed tcp" },
		{ "9.9.9.10:53", "ceiling_deny by nine" },
		{ "reports.test:443", "ceiling_deny" },
		{ "half-denied.test:443", "ceiling_deny" },
	};

	use("allow https://a.test\nallow https://only-ceiling.test\nallow ssh://c.test:443\n"
	    "allow tcp://d.test:443\nallow https://e.test\nallow https://f.test\n"
	    "allow tcp://*.test:1\nallow https://bad.test\ndeny bad.test as no\n"
	    "allow tcp://9.9.9.0/24:53\ndeny 9.9.9.10 as nine\nallow https://reports.test report\n"
	    "allow https://half-denied.test\ndeny half-denied.test report\n",
	    "allow https://a.test\nallow https://b.test\nallow https://c.test\n"
	    "allow https://d.test\nallow ssh://d.test:443\nallow https://e.test\n"
	    "allow ssh://e.test:443\nallow tcp://f.test:443\nallow https://bad.test\n"
	    "allow https://denied.test\ndeny denied.test\nallow tcp://9.9.9.0/24:53\n"
	    "allow https://reports.test\nallow https://half-denied.test\n",
	    0);
	expect_requests(rows, ARRAY_LEN(rows));
	drop();
	use("", "allow https://a.test\n", 0);
	expect_requests(&(struct row){ "a.test:443", "ceiling_deny" }, 1);
	drop();
}

Test(match, refuses_literals_where_only_names_count)
{
	static const struct row rows[] = { { "9.9.9.9:443", "literal_not_listed" },
					   { "a.test:443", "allowed tcp" } };

	use("allow any\n",
	    "option names_only\nallow tcp://9.9.9.9:443\nallow tcp://a.test:443\n", 0);
	expect_requests(rows, ARRAY_LEN(rows));
	drop();
}

Test(match, lets_report_rules_through_and_says_what_would_have_been)
{
	static const struct row rows[] = {
		{ "soft.test:443", "would_deny no_rule https by s" },
		{ "both.test:443", "allowed https by h" },
		{ "typed.test:443", "allowed tcp by ot" },
		{ "mixed.test:80", "allowed http,ws by mh" },
		{ "http://mixed.test:80", "allowed http by mh" },
		{ "ws://mixed.test:80", "would_deny scheme_not_allowed ws by mh" },
		{ "port.test:8443", "would_deny port_not_allowed https by p2" },
		{ "9.9.9.9:53", "would_deny literal_not_listed tcp by lit" },
		{ "watched.test:443", "would_deny rule_deny https by wd" },
		{ "unlisted.test:443", "no_rule" },
		{ "hard.test:443", "rule_deny by hd" },
	};

	use("allow any\n",
	    "allow https://soft.test report as s\nallow https://both.test report\n"
	    "allow https://both.test as h\nallow tcp://typed.test:443 as ot\n"
	    "allow https://typed.test report\nallow http://mixed.test as mh\n"
	    "allow ws://mixed.test report\nallow https://port.test as p1\n"
	    "allow https://port.test:8443 report as p2\nallow tcp://9.9.9.9:53 report as lit\n"
	    "allow https://watched.test\ndeny watched.test report as wd\n"
	    "allow https://hard.test report\ndeny hard.test as hd\n",
	    0);
	expect_requests(rows, ARRAY_LEN(rows));
	drop();
}

Test(match, lets_a_reporting_lease_through_only_where_the_operator_allows_it)
{
	static const char rules[] = "option report\nallow https://a.test as a\ndeny d.test as d\n"
				    "allow https://d.test\nplaces country=DE\n";
	static const struct row allowed[] = {
		{ "a.test:443", "allowed https place by a" },
		{ "a.test:80", "would_deny port_not_allowed tcp place" },
		{ "other.test:22", "would_deny no_rule tcp place" },
		{ "d.test:443", "would_deny rule_deny https place by d" },
		{ "http://a.test:443", "would_deny scheme_not_allowed http place by a" },
		/* What is never report-only. */
		{ "a.test:0", "port_not_allowed" },
		{ "other.test:0", "no_rule" },
		{ "no.test:443", "ceiling_deny" },
		{ "box.internal:443", "name_special" },
		{ "10.0.0.1:443", "special_address" },
		{ "9.9.9.9:443", "geo_unavailable" },
	};
	static const struct row refused[] = {
		{ "a.test:443", "allowed https place by a" },
		{ "a.test:80", "port_not_allowed" },
		{ "other.test:22", "no_rule" },
		{ "d.test:443", "rule_deny by d" },
	};

	use("allow any\ndeny no.test\n", rules, LAYOUT_ROOT_REPORT_ALLOWED);
	expect_requests(allowed, ARRAY_LEN(allowed));
	drop();
	use("allow any\n", rules, 0);
	expect_requests(refused, ARRAY_LEN(refused));
	drop();
	use("allow https://*.test\n", rules, LAYOUT_ROOT_REPORT_ALLOWED);
	expect_requests(&(struct row){ "other.test:443", "would_deny no_rule https place" }, 1);
	expect_requests(&(struct row){ "other.test:444", "ceiling_deny" }, 1);
	drop();
}

Test(match, judges_name_and_class_before_any_rule)
{
	static const struct row rows[] = {
		{ "box.internal:443", "name_special" },
		{ "localhost:443", "name_special" },
		{ "metadata.google.internal:80", "name_special" },
		{ "open.internal:443", "allowed https" },
		{ "a.lab.internal:443", "allowed https" },
		{ "lab.internal:443", "name_special" },
		{ "127.0.0.1:443", "special_address" },
		{ "0.0.0.0:443", "special_address" },
		{ "10.0.0.1:443", "special_address" },
		{ "169.254.169.254:443", "metadata_address" },
		{ "[::ffff:9.9.9.9]:443", "special_address" },
		{ "10.8.0.1:443", "allowed tcp" },
		{ "10.7.0.1:443", "special_address" },
	};

	use("allow any\nexception name for open.internal\nexception 10.1.0.0/16 for *.lab.internal\n"
	    "exception name for metadata.google.internal\nexception 10.8.0.0/16 for address\n"
	    "exception 10.7.0.0/16 for a.test\nexception 127.0.0.0/8 for address\n"
	    "exception 169.254.0.0/16 for address\nexception ::/8 for address\n",
	    "allow https://box.internal\nallow https://localhost\nallow http://metadata.google.internal\n"
	    "allow https://open.internal\nallow https://*.lab.internal\nallow https://lab.internal\n"
	    "allow tcp://0.0.0.0/0:443\nallow tcp://[::/0]:443\n",
	    0);
	expect_requests(rows, ARRAY_LEN(rows));
	drop();
}

/* Cases C115, C117 and C120 among them. */
Test(match, judges_every_resolved_address_by_class_exception_and_denied_prefix)
{
	static const struct address_row rows[] = {
		{ "a.test:443", "9.9.9.9", "allowed https by a" },
		{ "a.test:443", "2620:fe::fe", "allowed https by a" },
		{ "a.test:443", "10.0.0.1", "special_address" },
		{ "a.test:443", "168.63.129.16", "metadata_address" },
		{ "a.test:443", "192.0.0.192", "metadata_address" },
		{ "a.test:443", "64:ff9b::c000:c0", "metadata_address" },
		{ "a.test:443", "::1", "special_address" },
		{ "a.test:443", "::ffff:10.20.0.1", "special_address" },
		{ "corp.test:443", "10.20.3.4", "allowed https by c" },
		{ "corp.test:443", "10.21.3.4", "special_address" },
		{ "corp.test:443", "169.254.169.254", "metadata_address" },
		{ "corp.test:443", "169.254.1.1", "allowed https by c" },
		{ "corp.test:443", "127.0.0.1", "special_address" },
		{ "corp.test:443", "::ffff:10.20.0.1", "special_address" },
		{ "a.test:443", "10.20.3.4", "special_address" },
		{ "a.test:443", "8.8.8.8", "rule_deny by d8" },
		{ "a.test:443", "1.1.1.1", "ceiling_deny by d1" },
		{ "a.test:443", "4.4.4.4", "allowed https by a" },
		{ "a.test:80", "9.9.9.9", "port_not_allowed" },
		{ "z.test:443", "9.9.9.9", "no_rule" },
		{ "watched.test:443", "7.7.7.7", "would_deny rule_deny https by d7" },
	};

	use("allow any\nexception 10.20.0.0/16 for corp.test\nexception 169.254.0.0/16 for corp.test\n"
	    "exception 127.0.0.0/8 for corp.test\nexception ::/8 for corp.test\ndeny 1.1.1.0/24 as d1\n",
	    "allow https://a.test as a\nallow https://corp.test as c\nallow https://watched.test\n"
	    "deny 8.8.8.0/24 as d8\ndeny 4.4.4.0/24:22 as d4\ndeny 7.7.7.7 report as d7\n",
	    0);
	expect_addresses(rows, ARRAY_LEN(rows));
	drop();
}

Test(match, judges_behind_declared_nat64_by_the_inner_address)
{
	struct addr_nat64 nat64;
	struct addr_site site = { .nat64 = &nat64, .nat64_count = 1 };
	static const struct {
		const char *target, *address, *expected;
	} rows[] = {
		{ "a.test:443", "64:ff9b::909:909", "allowed https by a" },
		{ "a.test:443", "64:ff9b::808:808", "rule_deny by d8" },
		{ "a.test:443", "64:ff9b::a14:304", "special_address" },
		{ "corp.test:443", "64:ff9b::a14:304", "allowed https" },
		{ "corp.test:443", "64:ff9b::7f00:1", "special_address" },
	};

	cr_assert(prefix_parse(text_of("64:ff9b::/96"), &nat64.prefix));
	use("allow any\nexception 10.20.0.0/16 for corp.test\n",
	    "allow https://a.test as a\nallow https://corp.test\ndeny 8.8.8.0/24 as d8\n", 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct facts f = facts_of(PHASE_ADDRESS, rows[i].target);

		know_address(&f, rows[i].address);
		addr_classify(&f.address, &site, &f.finding);
		cr_expect_str_eq(decide(&f), rows[i].expected, "row %zu: %s", i, decide(&f));
	}
	drop();
}

Test(match, wants_every_place_to_hold_and_to_be_known)
{
	static const struct {
		const char *target, *country;
		uint32_t asn;
		const char *expected;
	} rows[] = {
		{ "de.test:443", "DE", 0, "allowed https place" },
		{ "de.test:443", "FR", 0, "allowed https place" },
		{ "de.test:443", "US", 0, "geo_denied" },
		{ "de.test:443", "", 7, "geo_unavailable" },
		{ "as.test:443", "DE", 7, "allowed https place" },
		{ "as.test:443", "DE", 5, "allowed https place" },
		{ "as.test:443", "DE", 8, "geo_denied" },
		{ "as.test:443", "DE", 0, "geo_unavailable" },
		{ "both.test:443", "DE", 7, "allowed https place" },
		{ "both.test:443", "US", 7, "geo_denied" },
		{ "both.test:443", "US", 0, "geo_unavailable" },
		{ "two.test:443", "FR", 0, "geo_denied" },
		{ "two.test:443", "DE", 0, "allowed https place" },
		{ "ceiling.test:443", "DE", 0, "geo_denied" },
		{ "ceiling.test:443", "NL", 0, "allowed https place" },
		{ "none.test:443", "", 0, "allowed https" },
	};

	use("allow any\nallow https://ceiling.test country=NL\n",
	    "allow https://de.test country=DE,FR\nallow https://as.test asn=5,7\n"
	    "allow https://both.test country=DE asn=7\nallow https://two.test country=DE,FR\n"
	    "allow https://two.test country=DE\nallow https://none.test\nallow https://ceiling.test\n"
	    "allow tcp://none.test:443 country=DE\n",
	    0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct facts f = facts_of(PHASE_ADDRESS, rows[i].target);

		know_address(&f, "9.9.9.9");
		f.place.country_known = rows[i].country[0] != '\0';
		snprintf(f.place.country, sizeof(f.place.country), "%s", rows[i].country);
		f.place.asn_known = rows[i].asn != 0;
		f.place.asn = rows[i].asn;
		cr_expect_str_eq(decide(&f), rows[i].expected, "row %zu: %s", i, decide(&f));
	}
	drop();
	use("allow any\n", "places country=DE\nallow https://none.test\n", 0);
	expect_addresses(&(struct address_row){ "none.test:443", "9.9.9.9", "geo_unavailable" }, 1);
	drop();
}

Test(match, reopens_by_what_the_exception_names_and_never_by_less)
{
	static const struct {
		const char *target, *address; /* address NULL: the name alone */
		bool expected;
	} rows[] = {
		{ "box.internal:1", NULL, true },
		{ "a.box.internal:1", NULL, false },
		{ "x.lab.internal:1", NULL, true },
		{ "lab.internal:1", NULL, false },
		{ "metadata.google.internal:1", NULL, false },
		{ "ordinary.test:1", NULL, false },
		{ "box.internal:1", "10.1.0.1", false },
		{ "x.lab.internal:1", "10.1.0.1", true },
		{ "x.lab.internal:1", "10.2.0.1", false },
		{ "lab.internal:1", "10.1.0.1", false },
		{ "10.1.0.1:1", "10.1.0.1", false },
		{ "10.3.0.1:1", "10.3.0.1", true },
		{ "ordinary.test:1", "10.3.0.1", false },
		{ "x.lab.internal:1", "9.9.9.9", false },
	};

	use("exception name for box.internal\nexception 10.1.0.0/16 for *.lab.internal\n"
	    "exception name for metadata.google.internal\nexception 10.3.0.0/16 for address\n",
	    "", 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct facts f = facts_of(PHASE_REQUEST, rows[i].target);

		if (rows[i].address != NULL)
			know_address(&f, rows[i].address);
		cr_expect_eq(policy_exception_covers(snapshot, &f), rows[i].expected, "row %zu", i);
	}
	drop();
}

Test(match, makes_permits_of_exactly_what_was_judged)
{
	struct facts f = facts_of(PHASE_ADDRESS, "a.test:443");
	struct permit permit;
	struct verdict v;

	use("allow any\n", "allow https://a.test\n", 0);
	know_address(&f, "9.9.9.9");
	v = policy_match(snapshot, snapshot_lease_find(snapshot, text_of("ls_1")), &f, NULL, &permit);
	cr_assert(v.allow);
	cr_expect(addr_equal(&permit.to.addr, &f.address) && permit.to.port == 443);
	cr_expect(permit.slot == 3 && permit.generation == 8 && permit.snapshot == 42);
	drop();
}

Test(match, refuses_facts_that_are_missing_or_contradict_each_other)
{
	struct facts f = facts_of(PHASE_ADDRESS, "a.test:443");

	use("allow any\n", "allow https://a.test\nallow tcp://9.9.9.9:443\n", 0);
	cr_expect_str_eq(decide(&f), "internal", "an address that is not known");
	f = facts_of(PHASE_REQUEST, "9.9.9.9:443");
	f.address_known = false;
	cr_expect_str_eq(decide(&f), "internal", "a literal that was not classified");
	f = facts_of(PHASE_ADDRESS, "9.9.9.9:443");
	know_address(&f, "8.8.8.8");
	cr_expect_str_eq(decide(&f), "internal", "another address than was asked for");
	f = facts_of(PHASE_ADDRESS, "a.test:443");
	know_address(&f, "9.9.9.9");
	f.finding.class = ADDR_CLASS_COUNT;
	cr_expect_str_eq(decide(&f), "special_address", "an impossible class");
	drop();
}

/* Case C286: there is no allocation to fail, in any phase. */
Test(match, allocates_nothing)
{
	struct facts f = facts_of(PHASE_ADDRESS, "a.test:443");
	struct permit permit;

	use("allow any\n", "allow https://a.test\n", 0);
	know_address(&f, "9.9.9.9");
	alloc_fail_at(1);
	cr_expect(policy_match(snapshot, snapshot_lease_find(snapshot, text_of("ls_1")), &f, NULL, &permit).allow);
	cr_expect_eq(alloc_count(), 0);
	alloc_fail_at(0);
	drop();
}

static void expect_trace(const char *target, const enum trace_result *results, size_t count)
{
	static struct trace t;
	struct facts f = facts_of(PHASE_REQUEST, target);

	trace_init(&t);
	(void)policy_match(snapshot, snapshot_lease_find(snapshot, text_of("ls_1")), &f, &t, NULL);
	cr_assert_eq(t.count, count, "%s: %zu steps", target, t.count);
	for (size_t i = 0; i < count; i++)
		cr_expect_eq(t.steps[i].result, results[i], "%s step %zu: %s", target, i,
			     trace_result_text(t.steps[i].result));
}

Test(match, traces_each_rule_that_was_tried)
{
	static const enum trace_result typed[] = { TRACE_MATCHED, TRACE_PORT_DIFFERS,
						   TRACE_HIDDEN_BY_TYPED, TRACE_MATCHED };
	static const enum trace_result scheme[] = { TRACE_SCHEME_DIFFERS, TRACE_PORT_DIFFERS,
						    TRACE_HIDDEN_BY_TYPED, TRACE_MATCHED };
	static const enum trace_result denied[] = { TRACE_MATCHED, TRACE_MATCHED, TRACE_MATCHED };
	static const enum trace_result report[] = { TRACE_REPORT_ONLY, TRACE_REPORT_ONLY,
						    TRACE_MATCHED };

	use("allow any\n",
	    "allow https://a.test\nallow http://a.test\nallow tcp://*.test:443\n"
	    "allow https://r.b report\ndeny r.b report\nallow https://other.test\n"
	    "allow http://d.b\ndeny d.b\n",
	    0);
	expect_trace("d.b:80", denied, ARRAY_LEN(denied));
	expect_trace("a.test:443", typed, ARRAY_LEN(typed));
	expect_trace("ssh://a.test:443", scheme, ARRAY_LEN(scheme));
	expect_trace("r.b:443", report, ARRAY_LEN(report));
	drop();
}

Test(match, asks_the_ceiling_alone_about_a_wider_lease)
{
	static const struct {
		const char *target;
		bool expected;
	} rows[] = {
		{ "https://a.test:443", true }, { "http://a.test:443", false },
		{ "tcp://a.test:443", false },	{ "https://o.test:5", true },
		{ "tcp://o.test:5", true },	{ "tcp://o.test:6", false },
		{ "https://d.test:443", false }, { "tcp://9.9.9.9:5", true },
		{ "tcp://9.9.9.8:5", false },	{ "a.test:443", false },
	};

	use("allow https://a.test\nallow tcp://o.test:5\nallow https://d.test\ndeny d.test\n"
	    "allow tcp://9.9.9.9:5\n",
	    "", 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct facts f = facts_of(PHASE_REQUEST, rows[i].target);

		cr_expect_eq(policy_ceiling_allows(snapshot, &f), rows[i].expected, "%s", rows[i].target);
	}
	drop();
}
