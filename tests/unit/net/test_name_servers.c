/* Which server next, over invented times. */
#include "net/name_servers.h"

#include <criterion/criterion.h>

static struct name_servers s;
static uint64_t now;

static void use(unsigned count)
{
	struct endpoint at[NAME_SERVERS_MAX];

	for (unsigned i = 0; i < count; i++)
		at[i] = (struct endpoint){ .addr = addr_v4((const uint8_t[4]){ 10, 0, 0, (uint8_t)i }), .port = 53 };
	cr_assert_eq(name_servers_set(&s, at, count), ERR_OK);
	now = 1000000;
}

static int pick(struct name_servers_round *round)
{
	size_t index;

	return name_servers_pick(&s, round, now, &index) ? (int)index : -1;
}

static int first_pick(void)
{
	struct name_servers_round round = { 0 };

	return pick(&round);
}

Test(name_servers, are_tried_in_their_order_round_after_round)
{
	struct name_servers_round round = { 0 };

	use(3);
	for (int i = 0; i < 9; i++)
		cr_expect_eq(pick(&round), i % 3);
	for (int i = 0; i < 1000; i++)
		cr_expect_neq(pick(&round), -1);
}

Test(name_servers, are_not_asked_again_by_a_lookup_that_ruled_them_out)
{
	struct name_servers_round round = { 0 };

	use(3);
	name_servers_rule_out(&round, 0);
	cr_expect_eq(pick(&round), 0, "indexes of another generation mean nothing");
	name_servers_rule_out(&round, 0);
	cr_expect_eq(pick(&round), 1);
	name_servers_rule_out(&round, 1);
	cr_expect_eq(pick(&round), 2);
	cr_expect_eq(pick(&round), 2);
	cr_expect(name_servers_is_open(&s, &round));
	name_servers_rule_out(&round, 2);
	cr_expect_not(name_servers_is_open(&s, &round));
	cr_expect_eq(pick(&round), -1);
	cr_expect_eq(first_pick(), 0, "other lookups do not care");
}

Test(name_servers, come_last_while_dead_and_get_one_chance_each_time)
{
	static const unsigned waits_ms[] = { 5000, 10000, 20000, 40000, 60000, 60000 };

	use(2);
	name_servers_missed(&s, 0, now - 1000, now);
	for (unsigned i = 0; i < ARRAY_LEN(waits_ms); i++) {
		struct name_servers_round round = { 0 };

		now += waits_ms[i] - 1;
		cr_expect_eq(first_pick(), 1, "chance %u came early", i);
		cr_expect_eq(pick(&round), 1);
		cr_expect_eq(pick(&round), 0, "the dead one is still the second choice");
		now += 1;
		cr_expect_eq(first_pick(), 0, "chance %u did not come", i);
		cr_expect_eq(first_pick(), 1, "chance %u came to two", i);
		name_servers_missed(&s, 0, now - 1000, now);
	}
	now += 60000;
	cr_expect_eq(first_pick(), 0);
	name_servers_heard(&s, 0, false, now);
	cr_expect_eq(first_pick(), 0);
	cr_expect_eq(first_pick(), 0);
}

Test(name_servers, are_not_dead_because_one_name_is_slow)
{
	use(2);
	name_servers_heard(&s, 0, false, now + 500);
	name_servers_missed(&s, 0, now, now + 1000);
	now += 1000;
	cr_expect_eq(first_pick(), 0, "it answered somebody while it kept silent on that name");
	name_servers_missed(&s, 0, now - 400, now);
	cr_expect_eq(first_pick(), 1);
}

Test(name_servers, keep_their_order_when_all_are_dead)
{
	struct name_servers_round round = { 0 };

	use(3);
	for (size_t i = 0; i < 3; i++)
		name_servers_lost(&s, i, now);
	for (int i = 0; i < 6; i++)
		cr_expect_eq(pick(&round), i % 3);
}

Test(name_servers, are_remembered_until_the_list_differs)
{
	struct name_servers_round round = { 0 };
	uint32_t generation;

	use(2);
	generation = s.generation;
	name_servers_heard(&s, 0, true, now);
	name_servers_lost(&s, 0, now);
	use(2);
	cr_expect_eq(s.generation, generation);
	cr_expect(s.list[0].is_dead && s.list[0].echoes_case);
	cr_expect_eq(pick(&round), 1);
	use(3);
	cr_expect_neq(s.generation, generation);
	cr_expect_not(s.list[0].is_dead || s.list[0].echoes_case);
	cr_expect_eq(pick(&round), 0, "a lookup under way starts over");
	use(0);
	cr_expect_eq(pick(&round), -1);
	cr_expect_not(name_servers_is_open(&s, &round));
}

Test(name_servers, once_seen_to_echo_stay_so)
{
	use(1);
	name_servers_heard(&s, 0, false, now);
	cr_expect_not(s.list[0].echoes_case);
	name_servers_heard(&s, 0, true, now);
	name_servers_heard(&s, 0, false, now);
	cr_expect(s.list[0].echoes_case);
}
