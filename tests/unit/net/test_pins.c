/* Pins of one lease: how long each outcome is believed, what makes room for what, and what never moves. */
#include "net/pins.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"

#define NOW 1000000u

static struct dname name_of(const char *text)
{
	struct dname name;

	cr_assert_eq(dname_parse(text_of(text), DNAME_FINAL_DOT_DROP, &name), DNAME_OK);
	return name;
}

static struct dns_answer answer_of(enum dns_outcome outcome, const char *canonical, uint32_t ttl_s, unsigned addrs)
{
	struct dns_answer a = { .outcome = outcome, .ttl_s = ttl_s, .addr_count = (uint8_t)addrs };

	a.canonical = name_of(canonical);
	for (unsigned i = 0; i < addrs; i++)
		a.addrs[i] = addr_v4((const uint8_t[4]){ 192, 0, 2, (uint8_t)i });
	return a;
}

static struct pins *create(size_t max)
{
	struct pins *p;

	cr_assert_eq(crypto_init(), ERR_OK);
	p = pins_create(max);
	cr_assert_not_null(p);
	return p;
}

static enum err put(struct pins *p, const char *name, enum dns_outcome outcome, uint32_t ttl_s, bool for_lease,
		    uint64_t now_ms)
{
	struct dname n = name_of(name);
	struct dns_answer a = answer_of(outcome, name, ttl_s, outcome == DNS_OUTCOME_ADDRESSES);

	return pins_put(p, &n, DNS_TYPE_A, &a, for_lease, now_ms);
}

static const struct pin *find(struct pins *p, const char *name, uint64_t now_ms)
{
	struct dname n = name_of(name);

	return pins_find(p, &n, DNS_TYPE_A, now_ms);
}

Test(pins, believes_every_outcome_exactly_as_long_as_the_contract_says)
{
	static const struct {
		enum dns_outcome outcome;
		uint32_t ttl_s, lives_s;
	} rows[] = {
		{ DNS_OUTCOME_ADDRESSES, 0, 30 },
		{ DNS_OUTCOME_ADDRESSES, 29, 30 },
		{ DNS_OUTCOME_ADDRESSES, 31, 31 },
		{ DNS_OUTCOME_ADDRESSES, 3600, 3600 },
		{ DNS_OUTCOME_ADDRESSES, 3601, 3600 },
		{ DNS_OUTCOME_ADDRESSES, UINT32_MAX, 3600 },
		{ DNS_OUTCOME_NXDOMAIN, 0, 1 },
		{ DNS_OUTCOME_NXDOMAIN, 7, 7 },
		{ DNS_OUTCOME_NXDOMAIN, UINT32_MAX, 60 },
		{ DNS_OUTCOME_NO_ADDRESS, 0, 1 },
		{ DNS_OUTCOME_NO_ADDRESS, 61, 60 },
		{ DNS_OUTCOME_SERVER_FAILURE, 900, 5 },
		{ DNS_OUTCOME_TRUNCATED, 900, 5 },
		{ DNS_OUTCOME_MALFORMED, 900, 5 },
		{ DNS_OUTCOME_TIMEOUT, 900, 1 },
		{ DNS_OUTCOME_UNREACHABLE, 900, 1 },
	};
	struct pins *p = create(8);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t ends = NOW + rows[i].lives_s * 1000ull;
		const struct pin *pin;

		cr_assert_eq(put(p, "a.test", rows[i].outcome, rows[i].ttl_s, false, NOW), ERR_OK);
		pin = find(p, "a.test", ends - 1);
		cr_assert_not_null(pin, "row %zu ended early", i);
		cr_expect_eq(pin->expires_ms, ends, "row %zu", i);
		cr_expect_eq(pin->ttl_s, rows[i].ttl_s);
		cr_expect_null(find(p, "a.test", ends), "row %zu outlived its time", i);
		cr_expect_eq(pins_count(p), 0);
	}
	pins_destroy(p);
}

Test(pins, gives_back_the_answer_it_was_made_of)
{
	struct pins *p = create(8);
	struct dname name = name_of("www.shop.test");
	struct dns_answer a = answer_of(DNS_OUTCOME_ADDRESSES, "edge.cdn.test", 77, DNS_ANSWER_ADDRS_MAX);
	struct dns_answer back;
	const struct pin *pin;

	a.chain_count = 2;
	cr_assert_eq(pins_put(p, &name, DNS_TYPE_A, &a, false, NOW), ERR_OK);
	pin = pins_find(p, &name, DNS_TYPE_A, NOW);
	cr_assert_not_null(pin);
	cr_expect_str_eq(pin->name, "www.shop.test");
	cr_expect_str_eq(pin->canonical, "edge.cdn.test");
	pin_answer(pin, &back);
	cr_expect_eq(back.outcome, a.outcome);
	cr_expect_eq(back.ttl_s, 77);
	cr_expect_eq(back.chain_count, 2);
	cr_expect_eq(back.addr_count, DNS_ANSWER_ADDRS_MAX);
	cr_expect_eq(memcmp(back.addrs, a.addrs, sizeof(a.addrs)), 0);
	cr_expect(dname_equal(&back.canonical, &a.canonical));
	cr_expect_eq(back.canonical.label_count, a.canonical.label_count);
	cr_expect_null(pins_find(p, &name, DNS_TYPE_AAAA, NOW), "families are bound apart");
	pins_destroy(p);
}

Test(pins, for_the_lease_stand_for_ever_and_are_not_moved_by_a_later_answer)
{
	struct pins *p = create(8);
	struct dname name = name_of("db.test");
	struct dns_answer first = answer_of(DNS_OUTCOME_ADDRESSES, "db.test", 1, 1);
	struct dns_answer second = answer_of(DNS_OUTCOME_ADDRESSES, "db.test", 1, 2);
	const struct pin *pin;

	cr_assert_eq(pins_put(p, &name, DNS_TYPE_A, &first, true, NOW), ERR_OK);
	cr_assert_eq(pins_put(p, &name, DNS_TYPE_A, &second, false, NOW), ERR_OK);
	cr_assert_eq(pins_put(p, &name, DNS_TYPE_A, &second, true, NOW), ERR_OK);
	pin = pins_find(p, &name, DNS_TYPE_A, UINT64_MAX - 1);
	cr_assert_not_null(pin);
	cr_expect_eq(pin->addr_count, 1);
	cr_expect_eq(pin->expires_ms, UINT64_MAX);
	cr_expect(pins_drop(p, &name));
	cr_expect_not(pins_drop(p, &name));
	cr_expect_null(pins_find(p, &name, DNS_TYPE_A, NOW));
	pins_destroy(p);
}

Test(pins, never_keep_a_failure_for_the_lease)
{
	static const enum dns_outcome outcomes[] = { DNS_OUTCOME_NO_ADDRESS, DNS_OUTCOME_NXDOMAIN,
						     DNS_OUTCOME_SERVER_FAILURE, DNS_OUTCOME_TIMEOUT };
	struct pins *p = create(8);

	for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
		cr_assert_eq(put(p, "a.test", outcomes[i], 3600, true, NOW), ERR_OK);
		cr_expect_not(find(p, "a.test", NOW)->for_lease);
		cr_expect_null(find(p, "a.test", NOW + 61000));
	}
	pins_destroy(p);
}

Test(pins, become_the_leases_when_a_rule_asks_for_it_later)
{
	struct pins *p = create(8);

	cr_assert_eq(put(p, "a.test", DNS_OUTCOME_ADDRESSES, 30, false, NOW), ERR_OK);
	cr_assert_eq(put(p, "a.test", DNS_OUTCOME_ADDRESSES, 30, true, NOW), ERR_OK);
	cr_expect_eq(pins_count(p), 1);
	cr_expect_not_null(find(p, "a.test", NOW + 40000));
	pins_destroy(p);
}

Test(pins, make_room_in_the_order_of_their_expiry_and_spare_the_leases_own)
{
	struct pins *p = create(4);

	cr_assert_eq(put(p, "lease.test", DNS_OUTCOME_ADDRESSES, 0, true, NOW), ERR_OK);
	cr_assert_eq(put(p, "late.test", DNS_OUTCOME_ADDRESSES, 300, false, NOW), ERR_OK);
	cr_assert_eq(put(p, "soon.test", DNS_OUTCOME_ADDRESSES, 100, false, NOW), ERR_OK);
	cr_assert_eq(put(p, "mid.test", DNS_OUTCOME_ADDRESSES, 200, false, NOW), ERR_OK);
	cr_assert_eq(put(p, "new.test", DNS_OUTCOME_ADDRESSES, 400, false, NOW), ERR_OK);
	cr_expect_null(find(p, "soon.test", NOW));
	cr_assert_eq(put(p, "newer.test", DNS_OUTCOME_ADDRESSES, 400, false, NOW), ERR_OK);
	cr_expect_null(find(p, "mid.test", NOW));
	cr_expect_not_null(find(p, "late.test", NOW));
	cr_expect_not_null(find(p, "lease.test", NOW));
	cr_expect_eq(pins_count(p), 4);
	pins_destroy(p);
}

Test(pins, refuse_when_only_the_leases_own_are_left)
{
	struct pins *p = create(2);

	cr_assert_eq(put(p, "a.test", DNS_OUTCOME_ADDRESSES, 0, true, NOW), ERR_OK);
	cr_assert_eq(put(p, "b.test", DNS_OUTCOME_ADDRESSES, 0, true, NOW), ERR_OK);
	cr_expect_eq(put(p, "c.test", DNS_OUTCOME_ADDRESSES, 0, false, NOW), ERR_LIMIT);
	cr_expect_eq(pins_count(p), 2);
	pins_flush(p);
	cr_expect_eq(pins_count(p), 0);
	cr_expect_eq(put(p, "c.test", DNS_OUTCOME_ADDRESSES, 0, false, NOW), ERR_OK);
	pins_destroy(p);
}

Test(pins, follow_a_bound_that_moves)
{
	struct pins *p = create(1);

	cr_assert_eq(put(p, "a.test", DNS_OUTCOME_ADDRESSES, 60, true, NOW), ERR_OK);
	cr_expect_eq(put(p, "b.test", DNS_OUTCOME_ADDRESSES, 60, true, NOW), ERR_LIMIT);
	pins_set_max(p, 2);
	cr_expect_eq(put(p, "b.test", DNS_OUTCOME_ADDRESSES, 60, true, NOW), ERR_OK);
	pins_set_max(p, 1);
	cr_expect_eq(put(p, "c.test", DNS_OUTCOME_ADDRESSES, 60, false, NOW), ERR_LIMIT);
	cr_expect_not_null(find(p, "a.test", NOW), "what is there stays");
	cr_expect_not_null(find(p, "b.test", NOW));
	pins_destroy(p);
}

Test(pins, clear_what_has_expired_little_by_little)
{
	struct pins *p = create(1000);
	char name[32];

	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "n%u.test", i);
		cr_assert_eq(put(p, name, DNS_OUTCOME_TIMEOUT, 0, false, NOW), ERR_OK);
	}
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "m%u.test", i);
		cr_assert_eq(put(p, name, DNS_OUTCOME_ADDRESSES, 0, false, NOW + 10000), ERR_OK);
	}
	cr_expect_eq(pins_count(p), 100, "two old ones leave for each new one");
	pins_destroy(p);
}

/* A model that keeps everything in an array must agree at every step. */
Test(pins, agree_with_a_plain_array_under_a_long_random_history)
{
	enum { NAMES = 40, MAX = 16 };
	struct {
		uint64_t expires_ms;
		bool there;
	} model[NAMES] = { 0 };
	struct pins *p = create(MAX);
	uint32_t seed = 1;
	uint64_t now = NOW;
	char name[32];

	for (unsigned step = 0; step < 20000; step++) {
		unsigned i, live = 0, soonest = NAMES;

		seed = seed * 1664525u + 1013904223u;
		i = (seed >> 8) % NAMES;
		/* No two pins ever expire in the same millisecond, so that the soonest is one. */
		now = NOW + step * 1000ull + step % 1000;
		snprintf(name, sizeof(name), "n%u.test", i);
		if ((seed >> 28) < 8) {
			const struct pin *pin = find(p, name, now);

			cr_assert_eq(pin != NULL, model[i].there && model[i].expires_ms > now, "step %u", step);
			model[i].there = pin != NULL;
			continue;
		}
		cr_assert_eq(put(p, name, DNS_OUTCOME_ADDRESSES, 30 + (seed >> 12) % 50, false, now), ERR_OK);
		model[i].there = false;
		/* The same two old ones that a put clears away. */
		for (unsigned round = 0; round < 2; round++) {
			soonest = NAMES;
			for (unsigned n = 0; n < NAMES; n++) {
				if (model[n].there && model[n].expires_ms <= now &&
				    (soonest == NAMES || model[n].expires_ms < model[soonest].expires_ms))
					soonest = n;
			}
			if (soonest < NAMES)
				model[soonest].there = false;
		}
		soonest = NAMES;
		for (unsigned n = 0; n < NAMES; n++) {
			live += model[n].there;
			if (model[n].there && (soonest == NAMES || model[n].expires_ms < model[soonest].expires_ms))
				soonest = n;
		}
		if (live == MAX)
			model[soonest].there = false;
		model[i].there = true;
		model[i].expires_ms = now + (30 + (seed >> 12) % 50) * 1000ull;
		cr_assert_leq(pins_count(p), MAX);
	}
	pins_destroy(p);
}

Test(pins, survive_a_failing_allocation_at_every_point)
{
	struct pins *p = create(64);
	char name[32];

	for (unsigned nth = 1; nth < 4; nth++) {
		for (unsigned i = 0; i < 40; i++) {
			enum err err;

			snprintf(name, sizeof(name), "n%u.test", i);
			alloc_fail_at(nth);
			err = put(p, name, DNS_OUTCOME_ADDRESSES, 30, false, NOW);
			alloc_fail_at(0);
			cr_expect(err == ERR_OK || err == ERR_NO_MEMORY);
			cr_expect_eq(find(p, name, NOW) != NULL, err == ERR_OK);
		}
	}
	alloc_fail_at(1);
	cr_expect_null(pins_create(4));
	alloc_fail_at(0);
	pins_destroy(p);
}

Test(pins, are_all_seen_by_a_walk)
{
	struct pins *p = create(64);
	const struct pin *pin = NULL;
	bool seen[30] = { false };
	unsigned count = 0;
	char name[32];

	for (unsigned i = 0; i < ARRAY_LEN(seen); i++) {
		snprintf(name, sizeof(name), "n%u.test", i);
		cr_assert_eq(put(p, name, DNS_OUTCOME_ADDRESSES, 30, i % 3 == 0, NOW), ERR_OK);
	}
	while ((pin = pins_next(p, pin)) != NULL) {
		unsigned i;

		cr_assert_eq(sscanf(pin->name, "n%u.test", &i), 1);
		cr_expect_not(seen[i]);
		seen[i] = true;
		count++;
	}
	cr_expect_eq(count, ARRAY_LEN(seen));
	pins_destroy(p);
}
