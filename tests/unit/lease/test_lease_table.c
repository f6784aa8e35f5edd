/* Which lease is this guest? By arrival, by token, and when the lease itself is in force. */
#include "lease/lease_table.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "segment_builder.h"

#define NOW 1000000u

static struct built_store store;
static struct lease_table *table;
static uint32_t slots_asked;

static uint32_t slot_of(void *arg, struct text id)
{
	cr_assert_eq(arg, &slots_asked);
	cr_assert_gt(id.len, 0);
	return 100 + slots_asked++;
}

static void use_leases(const char *const *leases)
{
	struct snapshot *snapshot;

	built_store_init(&store);
	slots_asked = 0;
	snapshot = built_snapshot(&store, 1, 0, "allow any\n", leases);
	cr_assert_eq(lease_table_create(snapshot, slot_of, &slots_asked, &table), ERR_OK);
	snapshot_unref(snapshot);
}

static void drop_leases(void)
{
	lease_table_unref(table);
	built_store_finish(&store);
}

static struct lease_arrival arrival_of(const char *listener, const char *source)
{
	struct lease_arrival a = { .listener = listener };

	if (source != NULL)
		cr_assert(addr_parse(text_of(source), &a.source.addr));
	return a;
}

static const char *id_of(const struct lease_table_entry *entry)
{
	static struct lease lease;

	lease_table_read(entry, &lease);
	return lease.id;
}

/* The id of the lease that a guest is, or the word of the reason. */
static const char *claim_text(const char *listener, const char *source, const char *user,
			      const char *password)
{
	struct lease_arrival arrival = arrival_of(listener, source);
	const struct lease_table_entry *entry = NULL;
	struct lease_claim claim;
	enum reason why;

	cr_assert_eq(lease_token_claim(text_of(user), text_of(password), &claim), ERR_OK);
	why = lease_table_claim(table, &arrival, &claim, NOW, &entry);
	cr_assert_eq(why == REASON_ALLOWED, entry != NULL);
	return why == REASON_ALLOWED ? id_of(entry) : reason_word(why);
}

static const char *arrive_text(const char *listener, const char *source)
{
	struct lease_arrival arrival = arrival_of(listener, source);
	struct lease_arrival_options options;

	lease_table_arrive(table, &arrival, &options);
	cr_assert_eq(options.alone == REASON_ALLOWED, options.entry != NULL);
	return options.alone == REASON_ALLOWED ? id_of(options.entry) : reason_word(options.alone);
}

static bool token_may_help(const char *listener, const char *source)
{
	struct lease_arrival arrival = arrival_of(listener, source);
	struct lease_arrival_options options;

	lease_table_arrive(table, &arrival, &options);
	return options.token_may_help;
}

static const char *const mixed[] = {
	"lease by-source\nrequire source\nsource 10.0.0.7/32\nsource 2001:db8::/64\n",
	"lease by-listener\nrequire listener\nlistener vm-1\n",
	"lease by-both\nrequire listener source\nlistener vm-2\nsource 10.2.0.0/16\nsource 10.2.0.0/24\n",
	"lease by-token\nrequire token\ntoken tok-t\n",
	"lease all-three\nrequire listener source token\nlistener vm-3\nsource 10.3.0.0/16\ntoken tok-3\n",
	"lease source-token\nrequire source token\nsource 10.4.0.0/16\ntoken tok-4\ntoken tok-5 exp 999999\n",
	NULL,
};

Test(lease_table, finds_the_one_lease_that_arrival_alone_satisfies)
{
	static const struct {
		const char *listener, *source, *expected;
	} rows[] = {
		{ "main", "10.0.0.7", "by-source" },
		{ "main", "2001:db8::5", "by-source" },
		{ "main", "10.0.0.8", "lease_unknown" },
		{ "main", "::ffff:10.0.0.7", "lease_unknown" },
		{ "vm-1", "192.0.2.1", "by-listener" },
		{ "vm-1", NULL, "by-listener" },
		{ "vm-2", "10.2.0.1", "by-both" },
		{ "vm-2", "10.2.255.1", "by-both" },
		{ "vm-2", "10.3.0.1", "lease_unknown" },
		{ "vm-2", NULL, "lease_unknown" },
		{ "main", "10.2.0.1", "lease_unknown" },
		{ "vm-3", "10.3.0.1", "lease_unknown" },
		{ "", NULL, "lease_unknown" },
		{ NULL, NULL, "lease_unknown" },
		{ "vm", "10.9.9.9", "lease_unknown" },
		{ "vm-11", "10.9.9.9", "lease_unknown" },
	};

	use_leases(mixed);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		cr_expect_str_eq(arrive_text(rows[i].listener, rows[i].source), rows[i].expected,
				 "row %zu", i);
	drop_leases();
}

Test(lease_table, calls_several_fitting_leases_ambiguous_even_if_one_is_narrower)
{
	static const char *const leases[] = {
		"lease wide\nrequire source\nsource 10.0.0.0/8\n",
		"lease narrow\nrequire source\nsource 10.1.0.0/16\n",
		"lease with-listener\nrequire listener source\nlistener vm-1\nsource 10.2.0.0/16\n",
		NULL,
	};

	use_leases(leases);
	cr_expect_str_eq(arrive_text("main", "10.9.0.1"), "wide");
	cr_expect_str_eq(arrive_text("main", "10.1.0.1"), "lease_ambiguous");
	cr_expect_str_eq(arrive_text("vm-1", "10.2.0.1"), "lease_ambiguous");
	cr_expect_str_eq(arrive_text("main", "10.2.0.1"), "wide");
	drop_leases();
}

Test(lease_table, knows_whether_a_token_could_help)
{
	static const char *const no_open_token[] = {
		"lease a\nrequire listener token\nlistener vm-1\ntoken t\n",
		"lease b\nrequire source token\nsource 10.0.0.0/8\ntoken t\n",
		"lease c\nrequire source\nsource 192.0.2.0/24\n",
		NULL,
	};

	use_leases(no_open_token);
	cr_expect(token_may_help("vm-1", NULL));
	cr_expect(token_may_help("main", "10.1.1.1"));
	cr_expect_not(token_may_help("main", "192.0.2.1"));
	cr_expect_not(token_may_help("main", "11.0.0.1"));
	drop_leases();
	use_leases(mixed);
	cr_expect(token_may_help("anything", "203.0.113.1"));
	drop_leases();
}

Test(lease_table, takes_a_token_only_where_its_lease_arrives)
{
	static const struct {
		const char *listener, *source, *user, *password, *expected;
	} rows[] = {
		{ "main", "192.0.2.1", "by-token", "tok-t", "by-token" },
		{ "main", "192.0.2.1", "by-token/tag", "tok-t", "by-token" },
		{ "main", NULL, "by-token", "tok-t", "by-token" },
		{ "vm-3", "10.3.0.1", "all-three", "tok-3", "all-three" },
		{ "main", "10.4.0.1", "source-token", "tok-4", "source-token" },
		/* Wrong, foreign, over, shapeless: one word. */
		{ "main", "192.0.2.1", "by-token", "tok-x", "auth_failed" },
		{ "main", "192.0.2.1", "by-token", "tok-3", "auth_failed" },
		{ "main", "192.0.2.1", "nobody", "tok-t", "auth_failed" },
		{ "main", "192.0.2.1", "by-token", "", "auth_failed" },
		{ "main", "192.0.2.1", "", "tok-t", "auth_failed" },
		{ "main", "192.0.2.1", "/by-token", "tok-t", "auth_failed" },
		{ "main", "10.4.0.1", "source-token", "tok-5", "auth_failed" },
		/* Right, but the arrival is not this lease's. */
		{ "main", "10.3.0.1", "all-three", "tok-3", "identity_mismatch" },
		{ "vm-3", "10.4.0.1", "all-three", "tok-3", "identity_mismatch" },
		{ "vm-3", NULL, "all-three", "tok-3", "identity_mismatch" },
		{ "main", "10.5.0.1", "source-token", "tok-4", "identity_mismatch" },
		/* Right, but the arrival is another's. */
		{ "vm-1", "192.0.2.1", "by-token", "tok-t", "identity_mismatch" },
		{ "vm-3", "192.0.2.1", "by-token", "tok-t", "identity_mismatch" },
		{ "main", "10.0.0.7", "by-token", "tok-t", "identity_mismatch" },
		{ "main", "10.4.0.1", "by-token", "tok-t", "identity_mismatch" },
		{ "vm-1", "10.4.0.1", "source-token", "tok-4", "identity_mismatch" },
	};

	use_leases(mixed);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		cr_expect_str_eq(claim_text(rows[i].listener, rows[i].source, rows[i].user,
					    rows[i].password),
				 rows[i].expected, "row %zu", i);
	drop_leases();
}

Test(lease_table, counts_credentials_that_fit_no_lease_as_none_where_arrival_is_enough)
{
	static const char *const users[] = { "root", "by-token", "by-source", "", "user/x" };
	static const char *const passwords[] = { "", "wrong", "tok-x" };

	use_leases(mixed);
	for (size_t u = 0; u < ARRAY_LEN(users); u++) {
		for (size_t p = 0; p < ARRAY_LEN(passwords); p++) {
			cr_expect_str_eq(claim_text("main", "10.0.0.7", users[u], passwords[p]), "by-source");
			cr_expect_str_eq(claim_text("vm-1", NULL, users[u], passwords[p]), "by-listener");
		}
	}
	drop_leases();
}

Test(lease_table, fails_credentials_where_arrival_is_ambiguous)
{
	static const char *const leases[] = { "lease a\nrequire source\nsource 10.0.0.0/8\n",
					      "lease b\nrequire source\nsource 10.0.0.0/8\n", NULL };

	use_leases(leases);
	cr_expect_str_eq(arrive_text("main", "10.0.0.1"), "lease_ambiguous");
	cr_expect_str_eq(claim_text("main", "10.0.0.1", "a", "x"), "auth_failed");
	drop_leases();
}

Test(lease_table, gives_no_weight_to_tokens_that_the_lease_does_not_require)
{
	static const char *const leases[] = {
		"lease a\nrequire source\nsource 10.0.0.0/8\ntoken tok-a\n", NULL };

	use_leases(leases);
	cr_expect_str_eq(claim_text("main", "10.0.0.1", "a", "tok-a"), "a");
	cr_expect_str_eq(claim_text("main", "192.0.2.1", "a", "tok-a"), "auth_failed");
	drop_leases();
}

Test(lease_table, takes_any_of_many_tokens_and_each_only_until_it_ends)
{
	static const char *const leases[] = {
		"lease a\nrequire token\ntoken t1 exp 1000000\ntoken t2 exp 1000001\ntoken t3\n"
		"token t4\ntoken t5\ntoken t6\n",
		"lease over\nexp 900000\nrequire token\ntoken u1 exp 900000\ntoken u2 exp 800000\n"
		"token u3\n",
		NULL,
	};

	use_leases(leases);
	cr_expect_str_eq(claim_text("main", NULL, "a", "t1"), "auth_failed");
	cr_expect_str_eq(claim_text("main", NULL, "a", "t2"), "a");
	cr_expect_str_eq(claim_text("main", NULL, "a", "t3"), "a");
	cr_expect_str_eq(claim_text("main", NULL, "a", "t6"), "a");
	/* A token that ended with its lease still names it, so that the guest hears lease_expired. */
	cr_expect_str_eq(claim_text("main", NULL, "over", "u1"), "over");
	cr_expect_str_eq(claim_text("main", NULL, "over", "u2"), "auth_failed");
	cr_expect_str_eq(claim_text("main", NULL, "over", "u3"), "over");
	drop_leases();
}

static void on_slotted(void *arg, const struct snapshot_lease *l)
{
	const struct lease_table_entry *entry = lease_table_find(table, l->id);
	bool *seen = arg;

	cr_expect_eq(entry->lease, l);
	cr_assert(entry->slot >= 100 && entry->slot < 106);
	cr_expect_not(seen[entry->slot - 100]);
	seen[entry->slot - 100] = true;
}

Test(lease_table, gives_each_lease_the_slot_it_was_told)
{
	bool seen[6] = { false };

	use_leases(mixed);
	cr_expect_eq(slots_asked, 6);
	snapshot_visit(lease_table_snapshot(table), on_slotted, seen);
	for (size_t i = 0; i < 6; i++)
		cr_expect(seen[i]);
	cr_expect_null(lease_table_find(table, text_of("by-toke")));
	cr_expect_eq(lease_table_ref(table), table);
	lease_table_unref(table);
	drop_leases();
	lease_table_unref(NULL);
}

Test(lease_table, reads_a_lease_as_a_value)
{
	static const char *const leases[] = {
		"lease ls_1\ntenant acme\nrun run_7\nclass code\nrev 17\nnbf 5\nexp 9\nscope none\n"
		"state suspended\noption why names_only\n",
		NULL,
	};
	struct lease l;

	use_leases(leases);
	lease_table_read(lease_table_find(table, text_of("ls_1")), &l);
	cr_expect_str_eq(l.id, "ls_1");
	cr_expect_str_eq(l.tenant, "acme");
	cr_expect_str_eq(l.run, "run_7");
	cr_expect_str_eq(l.environment_class, "code");
	cr_expect(l.rev == 17 && l.nbf_ms == 5 && l.exp_ms == 9);
	cr_expect(l.scope == LAYOUT_SCOPE_NONE && l.state == LAYOUT_LEASE_SUSPENDED);
	cr_expect_eq(l.options, LAYOUT_OPTION_WHY | LAYOUT_OPTION_NAMES_ONLY);
	drop_leases();
}

Test(lease_table, says_whether_a_lease_is_in_force_in_the_order_of_the_reasons)
{
	static const struct {
		const char *lines, *expected;
	} rows[] = {
		{ "", "allowed" },
		{ "nbf 1000000\nexp 1000001\n", "allowed" },
		{ "nbf 1000001\n", "lease_not_yet" },
		{ "exp 1000000\n", "lease_expired" },
		{ "exp 1000000\nstate revoked\n", "lease_expired" },
		{ "nbf 1000001\nexp 5\n", "lease_not_yet" },
		{ "state suspended\n", "lease_suspended" },
		{ "state revoked\nscope none\n", "lease_revoked" },
		{ "state invalid\n", "policy_invalid" },
		{ "state ruleset_missing\nscope undeclared\n", "ruleset_missing" },
		{ "scope undeclared\n", "scope_undeclared" },
		{ "scope none\n", "scope_none" },
		/* The stricter of derived and claimed. */
		{ "scope declared\nclaims declared\n", "allowed" },
		{ "scope declared\nclaims none\n", "scope_none" },
		{ "scope declared\nclaims undeclared\n", "scope_undeclared" },
		{ "scope none\nclaims declared\n", "scope_none" },
		{ "scope none\nclaims undeclared\n", "scope_undeclared" },
		{ "scope undeclared\nclaims declared\n", "scope_undeclared" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[200];
		const char *leases[] = { text, NULL };

		snprintf(text, sizeof(text), "lease ls_1\n%s", rows[i].lines);
		use_leases(leases);
		cr_expect_str_eq(reason_word(lease_table_is_live(
					 lease_table_find(table, text_of("ls_1")), NOW)),
				 rows[i].expected, "row %zu", i);
		drop_leases();
	}
}

/* A slow second opinion: every lease, every condition, one after the other. */
struct search {
	const struct lease_arrival *arrival;
	const struct lease_table_entry *only;
	size_t fitting;
};

static void on_searched(void *arg, const struct snapshot_lease *lease)
{
	struct search *search = arg;
	const struct layout_lease *l = segment_lease(lease->segment);
	uint32_t count;
	const struct layout_source *sources = segment_table(lease->segment, LAYOUT_SOURCES, &count);
	bool source = false;

	for (uint32_t k = 0; k < count; k++) {
		struct prefix p = { .addr = { .family = sources[k].family }, .len = sources[k].len };

		memcpy(p.addr.octets, sources[k].octets, 16);
		source |= prefix_contains(&p, &search->arrival->source.addr);
	}
	if ((l->require & LAYOUT_REQUIRE_TOKEN) != 0 || ((l->require & LAYOUT_REQUIRE_SOURCE) != 0 && !source) ||
	    ((l->require & LAYOUT_REQUIRE_LISTENER) != 0 &&
	     !text_is(segment_text(lease->segment, l->listener), search->arrival->listener)))
		return;
	search->fitting++;
	search->only = lease_table_find(table, lease->id);
}

static const char *naive_arrive(const struct lease_arrival *arrival)
{
	struct search search = { .arrival = arrival };

	snapshot_visit(lease_table_snapshot(table), on_searched, &search);
	if (search.fitting != 1)
		return search.fitting == 0 ? "lease_unknown" : "lease_ambiguous";
	return id_of(search.only);
}

Test(lease_table, agrees_with_a_slow_search_over_many_leases)
{
	/* More leases than there are pairs of family and length. */
	static char texts[200][160];
	static const char *leases[201];
	uint32_t state = 12345;
	size_t known = 0;

	for (size_t i = 0; i < 200; i++) {
		unsigned kind = (unsigned)(i % 3), len = 27 + (unsigned)(i % 6);
		uint32_t mask = ~0u << (32 - len), at;

		state = state * 1664525u + 1013904223u;
		at = (0x0a000000u | (state >> 20)) & mask;
		snprintf(texts[i], sizeof(texts[i]),
			 "lease l%zu\nrequire %s\nlistener vm-%zu\nsource %u.%u.%u.%u/%u\n", i,
			 kind == 0 ? "source" : kind == 1 ? "listener" : "listener source", i % 7,
			 at >> 24, at >> 16 & 255, at >> 8 & 255, at & 255, len);
		leases[i] = texts[i];
	}
	use_leases(leases);
	for (unsigned i = 0; i < 4096; i++) {
		char listener[8], source[20], expected[65];
		struct lease_arrival arrival;

		snprintf(listener, sizeof(listener), "vm-%u", i % 9);
		snprintf(source, sizeof(source), "10.0.%u.%u", i / 256, i % 256);
		arrival = arrival_of(listener, source);
		snprintf(expected, sizeof(expected), "%s", naive_arrive(&arrival));
		known += expected[0] == 'l' && expected[1] != 'e';
		cr_assert_str_eq(arrive_text(listener, source), expected, "%s %s", listener, source);
	}
	cr_expect_gt(known, 100);
	drop_leases();
}

Test(lease_table, is_created_whole_or_not_at_all)
{
	struct snapshot *snapshot;
	uint64_t failures = 0;

	built_store_init(&store);
	snapshot = built_snapshot(&store, 1, 0, "allow any\n", mixed);
	for (;; failures++) {
		slots_asked = 0;
		table = NULL;
		alloc_fail_at(failures + 1);
		if (lease_table_create(snapshot, slot_of, &slots_asked, &table) == ERR_OK)
			break;
		cr_expect_null(table);
	}
	alloc_fail_at(0);
	cr_expect_geq(failures, 5);
	snapshot_unref(snapshot);
	drop_leases();
}
