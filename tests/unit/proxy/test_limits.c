/* Limits before a lease is known: unfinished handshakes and failed logins of one source. */
#include <criterion/criterion.h>

#include "base/crypto.h"
#include "proxy/limits.h"

static struct lease_arrival from(const char *address)
{
	struct lease_arrival a = { .listener = "main" };

	if (address != NULL)
		cr_assert(addr_parse(text_of(address), &a.source.addr));
	return a;
}

static struct limits *fresh(void)
{
	struct limits *l;

	cr_assert_eq(crypto_init(), ERR_OK);
	l = limits_create();
	cr_assert_not_null(l);
	return l;
}

Test(limits, unfinished_handshakes_of_one_source_are_bounded_and_come_back)
{
	struct limits *l = fresh();
	struct lease_arrival a = from("10.1.2.3");
	uint32_t cell = limits_cell(l, &a);

	for (int i = 0; i < 4; i++)
		cr_expect(limits_handshake_begin(l, cell, 4));
	cr_expect_not(limits_handshake_begin(l, cell, 4));
	limits_handshake_end(l, cell);
	cr_expect(limits_handshake_begin(l, cell, 4));
	for (int i = 0; i < 1000; i++)
		cr_expect(limits_handshake_begin(l, cell, 0), "0 is no limit");
	limits_destroy(l);
}

Test(limits, connections_of_all_are_bounded_together_and_come_back)
{
	struct limits *l = fresh();

	for (int i = 0; i < 3; i++)
		cr_expect(limits_connection_begin(l, 3));
	cr_expect_not(limits_connection_begin(l, 3));
	cr_expect_not(limits_connection_begin(l, 3), "a refused one is not counted");
	limits_connection_end(l);
	cr_expect(limits_connection_begin(l, 3));
	limits_destroy(l);
}

Test(limits, a_source_keeps_its_cell_and_its_whole_network_of_ipv6)
{
	struct limits *l = fresh();
	struct lease_arrival a = from("2001:db8:1:2::3"), b = from("2001:db8:1:2:ffff::9"), c = from("2001:db8:1:3::3");
	struct lease_arrival unix_one = from(NULL), unix_two = { .listener = "other" };

	cr_expect_eq(limits_cell(l, &a), limits_cell(l, &b), "the same /64");
	cr_expect(limits_cell(l, &a) != limits_cell(l, &c) || limits_cell(l, &unix_one) != limits_cell(l, &unix_two),
		  "two pairs of others collide by chance once in 67 million runs");
	limits_destroy(l);
}

Test(limits, guessing_is_slowed_more_and_more_and_forgiven_after_a_minute)
{
	struct limits *l = fresh();
	struct lease_arrival a = from("10.1.2.3");
	uint32_t cell = limits_cell(l, &a), before = 0;

	for (int i = 0; i < LIMITS_FAILURES_FREE; i++)
		cr_expect_eq(limits_login_failed(l, cell, 1000), 0);
	for (int i = 0; i < 10; i++) {
		uint32_t delay_ms = limits_login_failed(l, cell, 1000);

		cr_expect_geq(delay_ms, before);
		cr_expect_geq(delay_ms, LIMITS_DELAY_FIRST_MS);
		cr_expect_leq(delay_ms, LIMITS_DELAY_MAX_MS);
		before = delay_ms;
		limits_delay_ended(l, cell);
	}
	cr_expect_eq(before, LIMITS_DELAY_MAX_MS);
	cr_expect_eq(limits_login_failed(l, cell, 1000 + 60001), 0, "a minute without failures is forgiven");
	limits_destroy(l);
}

Test(limits, only_so_many_answers_are_held_back_at_a_time)
{
	struct limits *l = fresh();
	struct lease_arrival a = from("10.1.2.3");
	uint32_t cell = limits_cell(l, &a);

	for (int i = 0; i < LIMITS_FAILURES_FREE + LIMITS_DELAYED_MAX; i++)
		cr_expect_neq(limits_login_failed(l, cell, 5), UINT32_MAX);
	cr_expect_eq(limits_login_failed(l, cell, 5), UINT32_MAX, "beyond it the connection closes at once");
	limits_delay_ended(l, cell);
	cr_expect_neq(limits_login_failed(l, cell, 5), UINT32_MAX);
	limits_destroy(l);
}
