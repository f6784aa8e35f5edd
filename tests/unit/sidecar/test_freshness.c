/* The staleness machine, row by row of the contract's table, and walked through every second. */
#include <criterion/criterion.h>

#include "base/attr.h"
#include "sidecar/freshness.h"

#define S 1000000000ULL

static struct freshness fresh_at(uint64_t beat_s)
{
	struct freshness f;

	freshness_init(&f, 10, 30);
	freshness_beat(&f, beat_s * S, true, beat_s * S);
	return f;
}

Test(freshness, is_cold_then_syncing_until_a_beat_matches)
{
	struct freshness f;
	uint64_t refuse_at = 1, cut_at = 1;

	freshness_init(&f, 10, 30);
	cr_assert_eq(freshness_state(&f, 5 * S), GATE_COLD);
	/* An adopted holding that no beat ever named is no match. */
	freshness_match(&f);
	cr_assert_eq(freshness_state(&f, 5 * S), GATE_COLD);
	freshness_beat(&f, 6 * S, false, 6 * S);
	cr_assert_eq(freshness_state(&f, 6 * S), GATE_SYNC);
	freshness_deadlines(&f, &refuse_at, &cut_at);
	cr_assert_eq(refuse_at, 0);
	cr_assert_eq(cut_at, 0);
	freshness_match(&f);
	cr_assert_eq(freshness_state(&f, 6 * S), GATE_LIVE);
	freshness_deadlines(&f, &refuse_at, &cut_at);
	cr_assert_eq(refuse_at, 16 * S);
	cr_assert_eq(cut_at, 36 * S);
}

Test(freshness, decays_by_time_alone)
{
	struct freshness f = fresh_at(100);

	for (uint64_t t = 100; t < 200; t++) {
		enum gate_control want = t <= 103 ? GATE_LIVE :
					 t < 110  ? GATE_LAG :
					 t < 130  ? GATE_STALE :
						    GATE_CUT;

		cr_assert_eq(freshness_state(&f, t * S), want, "%llu", (unsigned long long)t);
	}
	freshness_beat(&f, 200 * S, true, 200 * S);
	cr_assert_eq(freshness_state(&f, 200 * S), GATE_LIVE);
}

Test(freshness, decays_sooner_while_a_named_holding_is_missing)
{
	struct freshness f = fresh_at(100);

	/* Beats go on, and none of them helps. */
	for (uint64_t t = 101; t < 140; t++) {
		uint64_t refuse_at, cut_at;

		freshness_beat(&f, t * S, false, t * S);
		freshness_deadlines(&f, &refuse_at, &cut_at);
		cr_assert_eq(refuse_at, 106 * S);
		cr_assert_eq(cut_at, 126 * S);
		cr_assert_eq(freshness_state(&f, t * S),
			     t <= 102 ? GATE_LIVE :
			     t < 106  ? GATE_LAG :
			     t < 126  ? GATE_STALE :
					GATE_CUT,
			     "%llu", (unsigned long long)t);
	}
	freshness_match(&f);
	cr_assert_eq(freshness_state(&f, 140 * S), GATE_LIVE);
}

Test(freshness, counts_from_when_a_beat_was_begun)
{
	struct freshness f;
	uint64_t refuse_at, cut_at;

	freshness_init(&f, 10, 30);
	freshness_beat(&f, 100 * S, false, 104 * S);
	freshness_match(&f);
	freshness_deadlines(&f, &refuse_at, &cut_at);
	cr_assert_eq(refuse_at, 110 * S);
}

Test(freshness, never_moves_back_nor_forward_for_an_old_beat)
{
	struct freshness f = fresh_at(100);
	uint64_t refuse_at, cut_at;

	freshness_beat(&f, 50 * S, true, 101 * S);
	freshness_beat(&f, 50 * S, false, 101 * S);
	freshness_deadlines(&f, &refuse_at, &cut_at);
	cr_assert_eq(refuse_at, 110 * S);
	cr_assert_eq(cut_at, 130 * S);
}

Test(freshness, clamps_bounds_to_what_is_compiled_in)
{
	struct freshness f;
	uint64_t refuse_at, cut_at;

	freshness_init(&f, 4000, 4000);
	freshness_beat(&f, 0, true, 0);
	freshness_deadlines(&f, &refuse_at, &cut_at);
	cr_assert_eq(refuse_at, 120 * S);
	/* Stale for 20 seconds cuts, whatever cut_after says. */
	cr_assert_eq(cut_at, 140 * S);
}

Test(freshness, has_a_word_for_every_state)
{
	for (unsigned i = GATE_COLD; i <= GATE_HALT; i++)
		cr_assert_str_neq(freshness_word((enum gate_control)i), "unknown");
	cr_assert_str_eq(freshness_word((enum gate_control)99), "unknown");
}

Test(freshness, halts_at_once_and_cuts_after_its_time)
{
	struct freshness f = fresh_at(100);
	uint64_t refuse_at, cut_at;

	freshness_halt(&f, true, 105 * S);
	cr_assert_eq(freshness_state(&f, 105 * S), GATE_HALT);
	/* Neither beats nor saying it again move the end. */
	freshness_beat(&f, 120 * S, true, 120 * S);
	freshness_halt(&f, true, 121 * S);
	freshness_deadlines(&f, &refuse_at, &cut_at);
	cr_assert_eq(refuse_at, 0);
	cr_assert_eq(cut_at, 135 * S);
	freshness_halt(&f, false, 122 * S);
	cr_assert_eq(freshness_state(&f, 122 * S), GATE_LIVE);
}
