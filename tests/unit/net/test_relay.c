/* A guest and an origin with a relay between them: order, ends, filters and bounds, over real sockets. */
#include "net/relay.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/attr.h"
#include "base/clock.h"
#include "fixture.h"
#include "relay_rig.h"
#include "net/sockopt.h"

Test(relay, carries_both_ways_what_was_read_before_first)
{
	struct relay_rig rig;
	struct relay_options options = { 0 };
	struct relay_counts counts;

	relay_rig_build(&rig, 0);
	relay_rig_say(rig.guest, "second");
	relay_rig_start(&rig, &options, "first ");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "first second");
	relay_rig_say(rig.origin, "answer");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.guest), "answer");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "-");
	relay_count(rig.relay, &counts);
	cr_expect_eq(counts.bytes[RELAY_UP], 12);
	cr_expect_eq(counts.bytes[RELAY_DOWN], 6);
	cr_expect(counts.any_read[RELAY_UP] && counts.any_read[RELAY_DOWN]);
	cr_expect(!counts.ended[RELAY_UP] && !counts.ended[RELAY_DOWN]);
	cr_expect_eq(rig.ends, 0);
	relay_rig_tear_down(&rig);
	relay_destroy(NULL);
}

/* What one side does: stays, finishes, resets. */
enum deed { STAYS, FINISHES, RESETS, DEEDS };

static void act(enum deed deed, int *fd, const char *last_words)
{
	if (deed == STAYS)
		return;
	relay_rig_say(*fd, last_words);
	if (deed == FINISHES)
		relay_rig_finish(*fd);
	else
		relay_rig_reset(fd);
}

/* Both orders of all nine pairs of deeds. */
Test(relay, passes_on_fin_as_fin_and_rst_as_rst)
{
	static const struct {
		const char *guest_hears, *origin_hears;
		int why; /* -1: goes on */
	} rows[DEEDS][DEEDS] = {
		[STAYS] = { { "-", "-", -1 }, { "down.", "-", -1 }, { "!", NULL, RELAY_END_ORIGIN_RESET } },
		[FINISHES] = { { "-", "up.", -1 },
			       { "down.", "up.", RELAY_END_DONE },
			       { "!", NULL, RELAY_END_ORIGIN_RESET } },
		[RESETS] = { { NULL, "!", RELAY_END_GUEST_RESET },
			     { NULL, "!", RELAY_END_GUEST_RESET },
			     { NULL, NULL, -2 } },
	};

	for (enum deed guest = 0; guest < DEEDS; guest++) {
		for (enum deed origin = 0; origin < DEEDS; origin++) {
			struct relay_rig rig;
			struct relay_options options = { 0 };

			relay_rig_build(&rig, 0);
			relay_rig_start(&rig, &options, "");
			/* A reset takes unread words with it, so that whoever resets says nothing. */
			act(guest, &rig.guest, guest == RESETS ? "" : "up");
			act(origin, &rig.origin, origin == RESETS ? "" : "down");
			relay_rig_turn(&rig);
			if (rows[guest][origin].why == -1) {
				cr_expect_eq(rig.ends, 0, "%d %d", guest, origin);
			} else {
				cr_expect_eq(rig.ends, 1, "%d %d", guest, origin);
				if (rows[guest][origin].why >= 0)
					cr_expect_eq((int)rig.why, rows[guest][origin].why, "%d %d: %d", guest,
						     origin, rig.why);
				relay_rig_close_relay(&rig);
			}
			if (rows[guest][origin].guest_hears != NULL)
				cr_expect_str_eq(relay_rig_heard(&rig, rig.guest), rows[guest][origin].guest_hears,
						 "guest, %d %d", guest, origin);
			if (rows[guest][origin].origin_hears != NULL)
				cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), rows[guest][origin].origin_hears,
						 "origin, %d %d", guest, origin);
			relay_rig_tear_down(&rig);
		}
	}
}

Test(relay, goes_on_the_other_way_after_one_has_finished)
{
	for (size_t side = 0; side < 2; side++) {
		struct relay_rig rig;
		struct relay_options options = { 0 };
		struct relay_counts counts;
		int *first, *second;

		relay_rig_build(&rig, 0);
		relay_rig_start(&rig, &options, "");
		first = side == 0 ? &rig.guest : &rig.origin;
		second = side == 0 ? &rig.origin : &rig.guest;
		relay_rig_say(*first, "question");
		relay_rig_finish(*first);
		cr_expect_str_eq(relay_rig_heard(&rig, *second), "question.");
		relay_count(rig.relay, &counts);
		cr_expect_eq(counts.ended[RELAY_UP], side == 0);
		cr_expect_eq(counts.ended[RELAY_DOWN], side == 1);
		cr_expect_eq(relay_inject(rig.relay, side == 0 ? RELAY_UP : RELAY_DOWN, (const uint8_t *)"x", 1),
			     ERR_CLOSED);
		for (size_t n = 0; n < 3; n++) {
			relay_rig_say(*second, "part");
			cr_expect_str_eq(relay_rig_heard(&rig, *first), "part");
		}
		cr_expect_eq(rig.ends, 0);
		relay_rig_finish(*second);
		cr_expect_str_eq(relay_rig_heard(&rig, *first), ".");
		cr_expect_eq(rig.ends, 1);
		cr_expect_eq(rig.why, RELAY_END_DONE);
		relay_rig_turn(&rig);
		cr_expect_eq(rig.ends, 1, "once");
		relay_rig_tear_down(&rig);
	}
}

Test(relay, resets_whoever_talks_to_a_side_that_is_gone)
{
	struct relay_rig rig;
	struct relay_options options = { 0 };

	relay_rig_build(&rig, 0);
	relay_rig_start(&rig, &options, "");
	relay_rig_close(&rig.guest); /* not a reset: the relay takes it for a half-close */
	relay_rig_turn(&rig);
	cr_expect_eq(rig.ends, 0);
	for (size_t n = 0; n < 10 && rig.ends == 0; n++) {
		relay_rig_say(rig.origin, "answer");
		relay_rig_turn(&rig);
	}
	cr_expect_eq(rig.ends, 1);
	cr_expect_eq(rig.why, RELAY_END_GUEST_RESET);
	relay_rig_close_relay(&rig);
	relay_rig_turn(&rig);
	cr_expect_eq(send(rig.origin, "x", 1, MSG_NOSIGNAL), -1, "it heard the FIN, and then the reset");
	cr_expect_eq(errno, EPIPE);
	relay_rig_tear_down(&rig);
}

static uint64_t counted(enum metric id)
{
	return atomic_load(&relay_rig_metrics.value[id]);
}

Test(relay, carries_the_same_bytes_by_copy_and_by_splice)
{
	static const struct {
		unsigned pipes;
		bool may_splice;
		size_t sip; /* what the receiver takes at a time */
	} rows[] = {
		{ 0, true, 65536 }, { 2, false, 65536 }, { 2, true, 65536 }, { 2, true, 3000 }, { 1, true, 20000 },
	};
	const uint64_t len = 8u << 20;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct relay_rig rig;
		struct relay_options options = { .may_splice = rows[i].may_splice };
		struct relay_counts counts;
		uint64_t up_in = 0, up_out = 0, down_in = 0, down_out = 0;
		uint64_t spliced = counted(METRIC_SPLICED), copied = counted(METRIC_COPIED);

		relay_rig_build(&rig, rows[i].pipes);
		relay_rig_start(&rig, &options, "");
		for (size_t n = 0; n < 200000 && (up_out < len || down_out < len); n++) {
			relay_rig_pour(rig.guest, &up_in, len);
			relay_rig_pour(rig.origin, &down_in, len);
			loop_turn(rig.loop, 0);
			relay_rig_drink(rig.origin, &up_out, rows[i].sip);
			relay_rig_drink(rig.guest, &down_out, rows[i].sip);
		}
		cr_expect_eq(up_out, len, "row %zu", i);
		cr_expect_eq(down_out, len, "row %zu", i);
		relay_count(rig.relay, &counts);
		cr_expect_eq(counts.bytes[RELAY_UP], len);
		cr_expect_eq(counts.bytes[RELAY_DOWN], len);
		cr_expect_eq(counted(METRIC_SPLICED) > spliced, rows[i].may_splice && rows[i].pipes > 0);
		cr_expect(counted(METRIC_COPIED) > copied);
		cr_expect_eq(rig.worker.pipes_lent, 0, "none is lent while nothing is in it");
		cr_expect_eq(rig.worker.pipe_count, rows[i].pipes);
		relay_rig_finish(rig.guest);
		relay_rig_finish(rig.origin);
		relay_rig_turn(&rig);
		cr_expect_eq(rig.ends, 1);
		cr_expect_eq(rig.why, RELAY_END_DONE);
		relay_rig_tear_down(&rig);
	}
}

Test(relay, gives_back_the_pipe_of_a_session_that_dies_with_bytes_in_it)
{
	for (size_t by_reset = 0; by_reset < 2; by_reset++) {
		struct relay_rig rig;
		struct relay_options options = { .may_splice = true };
		uint64_t in = 0;

		relay_rig_build(&rig, 1);
		relay_rig_start(&rig, &options, "");
		for (size_t n = 0; n < 3000; n++) {
			relay_rig_pour(rig.origin, &in, 1u << 30);
			loop_turn(rig.loop, 0);
		}
		cr_expect_eq(rig.worker.pipes_lent, 1, "the guest does not read");
		if (by_reset == 1) {
			relay_rig_reset(&rig.guest);
			relay_rig_turn(&rig);
			cr_expect_eq(rig.ends, 1);
			cr_expect_eq(rig.why, RELAY_END_GUEST_RESET);
		} else {
			relay_rig_close_relay(&rig);
		}
		cr_expect_eq(rig.worker.pipes_lent, 0);
		cr_expect_eq(rig.worker.pipe_count, 1);
		relay_rig_tear_down(&rig);
	}
}

Test(relay, reads_no_more_than_a_slow_receiver_lets_it)
{
	for (size_t may_splice = 0; may_splice < 2; may_splice++) {
		struct relay_rig rig;
		struct relay_options options = { .may_splice = may_splice == 1, .unsent_max = 65536 };
		int pair[2], small = 16384;
		uint64_t in = 0, out = 0, before;

		relay_rig_build(&rig, 1);
		/* Unix sockets, whose queues are exactly as long as the sender's buffer. */
		relay_rig_close(&rig.guest);
		relay_rig_close(&rig.guest_fd);
		relay_rig_close(&rig.origin);
		relay_rig_close(&rig.origin_fd);
		fixture_unix_pair(pair);
		rig.guest = pair[0];
		rig.guest_fd = pair[1];
		fixture_unix_pair(pair);
		rig.origin = pair[0];
		rig.origin_fd = pair[1];
		cr_assert_eq(setsockopt(rig.guest_fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
		cr_assert_eq(setsockopt(rig.origin, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
		relay_rig_start(&rig, &options, "");
		for (size_t n = 0; n < 2000; n++) {
			relay_rig_pour(rig.origin, &in, 1u << 30);
			loop_turn(rig.loop, 0);
		}
		cr_expect_lt(in, 2 * 2 * 16384 + 65536 + 65536, "%zu", (size_t)in);
		/* A sip lets as much in. */
		before = in;
		for (size_t n = 0; n < 200; n++) {
			relay_rig_drink(rig.guest, &out, 1000);
			loop_turn(rig.loop, 0);
			relay_rig_pour(rig.origin, &in, 1u << 30);
		}
		cr_expect_gt(in, before);
		cr_expect_lt(in - out, 2 * 2 * 16384 + 65536 + 65536);
		while (out < in) {
			loop_turn(rig.loop, 0);
			relay_rig_drink(rig.guest, &out, 65536);
		}
		relay_rig_tear_down(&rig);
	}
}

Test(relay, does_a_bounded_amount_of_work_a_wakeup)
{
	struct relay_rig rig;
	struct relay_options options = { .unsent_max = 1000, .rounds_per_wakeup = 2 };
	struct relay_counts counts;
	uint64_t in = 0, moved = 0;

	relay_rig_build(&rig, 0);
	relay_rig_start(&rig, &options, "");
	relay_rig_pour(rig.origin, &in, 10000);
	cr_assert_eq(in, 10000);
	for (unsigned turns = 1; turns <= 5; turns++) {
		loop_turn(rig.loop, 1000);
		relay_count(rig.relay, &counts);
		cr_expect_eq(counts.bytes[RELAY_DOWN] - moved, 2000, "turn %u", turns);
		moved = counts.bytes[RELAY_DOWN];
	}
	relay_rig_tear_down(&rig);
}

/* --- the budget --- */

static uint64_t scripted_ns;

static uint64_t scripted_mono_ns(void)
{
	return scripted_ns;
}

static uint64_t scripted_wall_ms(void)
{
	return scripted_ns / 1000000;
}

Test(relay, moves_no_more_than_the_budget_that_its_relays_share)
{
	static const struct clock_source scripted = { scripted_mono_ns, scripted_wall_ms };
	static const uint64_t rates[] = { 7, 1500, 100000, 10000000 };

	for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
		struct relay_rig rigs[2];
		struct relay_rate rate = { .bytes_per_s = rates[i] };
		struct relay_options options = { .rate = &rate, .may_splice = true };
		uint64_t in = 0, out = 0, in2 = 0, out2 = 0;

		scripted_ns = 5000000000;
		clock_use(&scripted);
		relay_rig_build(&rigs[0], 1);
		relay_rig_build(&rigs[1], 1);
		relay_rig_start(&rigs[0], &options, "");
		relay_rig_start(&rigs[1], &options, "");
		for (unsigned half_seconds = 0; half_seconds < 5; half_seconds++) {
			uint64_t allowed = rates[i] + rates[i] * half_seconds / 2;

			for (unsigned n = 0; n < 1000 && out + out2 < allowed; n++) {
				relay_rig_pour(rigs[0].origin, &in, 1u << 30);
				relay_rig_pour(rigs[1].guest, &in2, 1u << 30);
				loop_turn(rigs[0].loop, n > 50 ? 1 : 0);
				loop_turn(rigs[1].loop, n > 50 ? 1 : 0);
				relay_rig_drink(rigs[0].guest, &out, 65536);
				relay_rig_drink(rigs[1].origin, &out2, 65536);
			}
			cr_expect_leq(out + out2, allowed, "%zu B/s after %u half seconds", (size_t)rates[i],
				      half_seconds);
			/* What is left in the bucket is less than would wake anybody. */
			cr_expect_geq(out + out2 + 16384, allowed);
			cr_expect_geq((out + out2) * 100, (allowed - allowed / 20) * 90);
			scripted_ns += 500000000;
		}
		clock_use(NULL);
		relay_rig_tear_down(&rigs[1]);
		relay_rig_tear_down(&rigs[0]);
	}
}

Test(relay, resets_both_when_memory_for_the_unsent_runs_out)
{
	for (uint64_t nth = 1; nth <= 2; nth++) {
		struct relay_rig rig;
		struct relay_options options = { 0 };
		uint64_t in = 0;

		relay_rig_build(&rig, 0);
		relay_rig_start(&rig, &options, "");
		for (size_t n = 0; n < 3000 && rig.ends == 0; n++) {
			relay_rig_pour(rig.origin, &in, 1u << 30);
			alloc_fail_at(nth);
			loop_turn(rig.loop, 0);
		}
		alloc_fail_at(0);
		cr_expect_eq(rig.ends, 1);
		cr_expect_eq(rig.why, RELAY_END_MEMORY);
		relay_rig_close_relay(&rig);
		while (recv(rig.guest, &in, sizeof(in), MSG_DONTWAIT) > 0)
			;
		cr_expect_eq(errno, ECONNRESET, "a cut download does not look complete");
		relay_rig_tear_down(&rig);
	}
}
