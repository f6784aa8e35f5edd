/* What a lease may tell by asking for names: exactly its limits, by number, by information and by time, and never honest traffic. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/crypto.h"
#include "proxy/dns_budget.h"

#define HOUR_MS DNS_BUDGET_WINDOW_MS

static const struct dns_budget_limits defaults = { .lookups_per_s = 200, .failures_per_s = 50, .names = 500 };
static const struct dns_budget_limits only_names = { .names = 500 };

static enum reason admit(struct dns_budget *b, const struct dns_budget_limits *limits, const char *name, size_t free_len,
			 uint64_t now_ms)
{
	return dns_budget_admit(b, limits, text_of(name), free_len, now_ms);
}

Test(dns_budget, counts_different_names_and_no_name_twice)
{
	struct dns_budget b = { 0 };
	char name[32];

	cr_assert_eq(crypto_init(), ERR_OK);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 500; i++) {
			snprintf(name, sizeof(name), "n%d.test", i);
			cr_assert_eq(admit(&b, &only_names, name, 0, 5), REASON_ALLOWED, "%s", name);
		}
	}
	cr_expect_eq(b.name_count, 500);
	cr_expect_eq(admit(&b, &only_names, "one.more.test", 0, 5), REASON_DNS_BUDGET);
	cr_expect_eq(admit(&b, &only_names, "n7.test", 0, 5), REASON_ALLOWED, "a known name stays allowed");
	cr_expect_eq(b.refused, 1);
	dns_budget_finish(&b);
}

Test(dns_budget, forgets_a_name_an_hour_after_it_was_last_asked_for)
{
	const struct dns_budget_limits two = { .names = 2 };
	struct dns_budget b = { 0 };

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(admit(&b, &two, "a.test", 0, 0), REASON_ALLOWED);
	cr_assert_eq(admit(&b, &two, "b.test", 0, 1000), REASON_ALLOWED);
	cr_assert_eq(admit(&b, &two, "a.test", 0, 2000), REASON_ALLOWED);
	cr_expect_eq(admit(&b, &two, "c.test", 0, HOUR_MS + 999), REASON_DNS_BUDGET);
	cr_expect_eq(admit(&b, &two, "c.test", 0, HOUR_MS + 1000), REASON_ALLOWED, "b.test counts no more");
	cr_expect_eq(admit(&b, &two, "b.test", 0, HOUR_MS + 1999), REASON_DNS_BUDGET);
	cr_expect_eq(admit(&b, &two, "b.test", 0, HOUR_MS + 2000), REASON_ALLOWED);
	dns_budget_finish(&b);
}

Test(dns_budget, limits_of_a_second_are_exact_and_come_back)
{
	const struct dns_budget_limits limits = { .lookups_per_s = 7, .failures_per_s = 3, .names = 500 };
	struct dns_budget b = { 0 };
	unsigned admitted = 0;

	cr_assert_eq(crypto_init(), ERR_OK);
	for (int i = 0; i < 30; i++)
		admitted += admit(&b, &limits, "a.test", 0, 1000) == REASON_ALLOWED;
	cr_expect_eq(admitted, 7);
	cr_expect_eq(admit(&b, &limits, "a.test", 0, 2000), REASON_ALLOWED);
	for (int i = 0; i < 3; i++)
		dns_budget_failed(&b, &limits, 2000);
	cr_expect_eq(admit(&b, &limits, "a.test", 0, 2000), REASON_DNS_BUDGET, "three failures are the second's worth");
	cr_expect_eq(admit(&b, &limits, "a.test", 0, 2333), REASON_DNS_BUDGET);
	cr_expect_eq(admit(&b, &limits, "a.test", 0, 2334), REASON_ALLOWED);
	dns_budget_finish(&b);
}

Test(dns_budget, zero_means_no_limit_but_for_memory)
{
	const struct dns_budget_limits none = { 0 };
	struct dns_budget b = { 0 };
	char name[32];

	cr_assert_eq(crypto_init(), ERR_OK);
	for (unsigned i = 0; i < DNS_BUDGET_NAMES_MAX; i++) {
		snprintf(name, sizeof(name), "n%u.test", i);
		cr_assert_eq(admit(&b, &none, name, 0, 5), REASON_ALLOWED);
	}
	cr_expect_eq(admit(&b, &none, "more.test", 0, 5), REASON_DNS_BUDGET);
	cr_expect_leq(b.room, 4u * DNS_BUDGET_NAMES_MAX);
	dns_budget_finish(&b);
}

Test(dns_budget, bits_grow_with_length_and_disorder)
{
	static const struct {
		const char *labels;
		uint32_t bits;
	} rows[] = {
		{ "", 0 },	 { "a", 1 },	      { "aaaa", 4 },	      { "ab", 2 },  { "abc", 6 },
		{ "www", 3 },	 { "a.b.c", 6 },      { "files", 15 },	      { "....", 0 }, { "abcdefgh", 24 },
		{ "abcdefghi", 36 }, { "cdn-lfs-us-1", 48 }, { "0123456789abcdef0123456789abcdef", 128 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_eq(dns_budget_bits(text_of(rows[i].labels)), rows[i].bits, "%s: %u", rows[i].labels,
			     dns_budget_bits(text_of(rows[i].labels)));
}

/* Case C146: a thousand names of sixty random letters below an allowed wildcard. */
Test(dns_budget, data_in_labels_below_a_wildcard_ends_soon)
{
	struct dns_budget b = { 0 };
	unsigned admitted = 0;
	uint64_t state = 1;

	cr_assert_eq(crypto_init(), ERR_OK);
	for (uint64_t i = 0; i < 1000; i++) {
		char name[72];

		for (int at = 0; at < 60; at++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			name[at] = (char)('a' + (state >> 33) % 26);
		}
		snprintf(name + 60, sizeof(name) - 60, ".wild.test");
		/* Ten a second: slow enough for every rate. */
		admitted += admit(&b, &defaults, name, 60, i * 100) == REASON_ALLOWED;
	}
	cr_expect(admitted > 50 && admitted < 120, "%u names got through", admitted);
	cr_expect_eq(b.refused, 1000 - admitted);
	cr_expect_leq(b.bits, 500u * DNS_BUDGET_BITS_PER_NAME);
	dns_budget_finish(&b);
}

/* Five hundred names that are known and a zone that wants each asked for again at once: the choice among them is the message. */
Test(dns_budget, data_in_the_choice_among_known_names_ends_soon)
{
	struct dns_budget b = { 0 };
	unsigned admitted = 0, later = 0;
	char name[32];

	cr_assert_eq(crypto_init(), ERR_OK);
	for (uint64_t i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "n%u.wild.test", (unsigned)(i * 7 % 500));
		admitted += admit(&b, &only_names, name, strlen(name) - 10, 1000 + i * 5) == REASON_ALLOWED;
	}
	/* Nine bits each: an allowance of 64,000, and what fades in the 500 s. */
	cr_expect(admitted >= 500 + 64000 / 9 && admitted <= 500 + 73000 / 9 + 1, "%u got through", admitted);
	for (unsigned i = 0; i < 3600; i++)
		later += admit(&b, &only_names, "n1.wild.test", 2, 501000 + i * 1000) == REASON_ALLOWED;
	cr_expect_geq(later, 3599, "one name each second goes on: %u", later);
	dns_budget_finish(&b);
}

/* Forty hosts of a content network, each asked for again whenever its pin is over, for a day. */
Test(dns_budget, hosts_that_are_polled_all_day_stay_within)
{
	struct dns_budget b = { 0 };
	char name[32];

	cr_assert_eq(crypto_init(), ERR_OK);
	for (uint64_t at_ms = 0; at_ms < 24 * HOUR_MS; at_ms += 30000) {
		for (int i = 0; i < 40; i++) {
			snprintf(name, sizeof(name), "edge-%d.cdn.test", i);
			cr_assert_eq(admit(&b, &defaults, name, 7, at_ms), REASON_ALLOWED, "%s at %llu", name, (unsigned long long)at_ms);
		}
	}
	dns_budget_finish(&b);
}

Test(dns_budget, an_allowance_for_asking_again_comes_back_evenly_however_small)
{
	const struct dns_budget_limits one = { .names = 1 };
	struct dns_budget b = { 0 };
	unsigned admitted = 0;

	cr_assert_eq(crypto_init(), ERR_OK);
	/* 128 bits at once, and as many an hour: one in 28 s, asked every 20 ms for two hours. */
	for (uint64_t at_ms = HOUR_MS; at_ms < 3 * HOUR_MS; at_ms += 20)
		admitted += admit(&b, &one, "a.wild.test", 1, at_ms) == REASON_ALLOWED;
	cr_expect(admitted >= 370 && admitted <= 1 + 3 * 128, "%u", admitted);
	/* A name that a rule spells out is no choice. */
	for (unsigned i = 0; i < 1000; i++)
		cr_assert_eq(admit(&b, &one, "a.wild.test", 0, 3 * HOUR_MS), REASON_ALLOWED);
	dns_budget_finish(&b);
}

Test(dns_budget, names_that_a_rule_spells_out_carry_nothing)
{
	struct dns_budget b = { 0 };
	char name[80];

	cr_assert_eq(crypto_init(), ERR_OK);
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "%03d-0123456789abcdefghijklmnopqrstuvwxyz-0123456789.test", i);
		cr_assert_eq(admit(&b, &only_names, name, 0, 5), REASON_ALLOWED);
	}
	cr_expect_eq(b.bits, 0);
	dns_budget_finish(&b);
}

/* Hosts that package managers and browsers really ask for below wildcards, all within a second of each other. */
Test(dns_budget, honest_names_never_hit_the_defaults)
{
	static const char *const names[] = {
		"files", "www", "api", "cdn", "static", "assets-cdn", "raw", "objects", "codeload", "uploads", "avatars0", "avatars1",
		"pkg-containers", "production.cloudflare", "registry-1", "auth", "index", "d2glxqk2uabbnd", "dl-cdn", "deb",
		"security", "snapshot", "proxy", "sum", "storage", "crates-io-index", "static-assets", "fonts", "update",
		"docker-images-prod.6aa30f8b08e16409b46e0173d6de2f56.r2", "cdn-lfs-us-1", "cas-bridge", "transfer", "repo1",
		"repo.maven", "plugins", "services", "downloads", "conda-static", "edge-zone-a.pages", "img-prod-cms-rt-1",
		"e4578.dscb", "r3---sn-4g5e6nsz", "lh3", "ssl", "telemetry", "clients2", "safebrowsing", "optimizationguide-pa",
	};
	struct dns_budget b = { 0 };
	uint64_t now_ms = 0;

	cr_assert_eq(crypto_init(), ERR_OK);
	for (int zone = 0; zone < 10; zone++) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			char name[128];

			snprintf(name, sizeof(name), "%s.zone%d.test", names[i], zone);
			now_ms += 25;
			cr_assert_eq(admit(&b, &defaults, name, strlen(names[i]), now_ms), REASON_ALLOWED, "%s", name);
		}
	}
	dns_budget_finish(&b);
}
