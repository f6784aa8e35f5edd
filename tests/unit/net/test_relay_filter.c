/* What a filter says is what happens: every byte is seen, at every cut, and nothing passes that it did not let pass. */
#include "net/relay.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/attr.h"
#include "fixture.h"
#include "relay_rig.h"

/*
 * A protocol of lines. A line passes when it is whole, but: "X…" is replaced by "[gone]", "S…" stalls once, "E…" ends, "O…" and
 * all behind it is opaque. A partial line is held.
 */
struct lines {
	struct relay *relay;
	bool stall_seen, opaque_seen;
	unsigned calls_after_opaque, ends_seen;
	size_t longest;
	enum relay_filter_action at_end; /* what it says to an end with nothing held; PASS: HOLD */
};

static struct relay_filter_answer on_lines(void *arg, enum relay_way way, const uint8_t *bytes, size_t len,
					   bool end)
{
	struct lines *lines = arg;
	const uint8_t *newline = len == 0 ? NULL : memchr(bytes, '\n', len);
	struct relay_filter_answer a = { .action = RELAY_HOLD };

	if (lines->opaque_seen)
		lines->calls_after_opaque++;
	if (len > lines->longest)
		lines->longest = len;
	if (end)
		lines->ends_seen++;
	if (newline == NULL) {
		if (end && len > 0 && bytes[0] == 'P')
			return (struct relay_filter_answer){ .action = RELAY_PASS, .len = len };
		return a;
	}
	a.len = (size_t)(newline - bytes) + 1;
	a.action = RELAY_PASS;
	if (bytes[0] == 'X') {
		a.action = RELAY_REPLACE;
		a.instead = (const uint8_t *)"[gone]\n";
		a.instead_len = 7;
	} else if (bytes[0] == 'S' && !lines->stall_seen) {
		lines->stall_seen = true;
		a.action = RELAY_STALL;
	} else if (bytes[0] == 'E') {
		a.action = RELAY_END;
	} else if (bytes[0] == 'O') {
		lines->opaque_seen = true;
		a.action = RELAY_OPAQUE;
	}
	return a;
}

static struct relay_options filtered(struct lines *lines, size_t hold_max)
{
	struct relay_options options = { .filter_arg = lines };

	options.way[RELAY_UP] = (struct relay_way_options){ .filter = on_lines, .hold_max = hold_max };
	return options;
}

Test(relay_filter, lets_a_filter_see_every_byte_at_every_cut)
{
	static const char said[] = "ab\nXsecret\n\nP\nXX\ncdefg\nOpaque\nXnow passes";
	static const char heard_whole[] = "ab\n[gone]\n\nP\n[gone]\ncdefg\nOpaque\nXnow passes";

	for (size_t cut = 0; cut <= strlen(said); cut++) {
		struct relay_rig rig;
		struct lines lines = { 0 };
		struct relay_options options = filtered(&lines, 64);
		char first[64];

		snprintf(first, sizeof(first), "%.*s", (int)cut, said);
		relay_rig_build(&rig, 0);
		/* The first cut comes as what was read before, the second as bytes one by one. */
		relay_rig_start(&rig, &options, first);
		if (cut % 8 == 3) {
			for (size_t i = cut; i < strlen(said); i++) {
				fixture_send(rig.guest, said + i, 1);
				loop_turn(rig.loop, 5);
			}
		} else {
			relay_rig_say(rig.guest, said + cut);
		}
		cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), heard_whole, "cut %zu", cut);
		cr_expect_eq(lines.calls_after_opaque, 0);
		cr_expect(!relay_has_filter(rig.relay));
		cr_expect_eq(rig.ends, 0);
		relay_rig_tear_down(&rig);
	}
}

Test(relay_filter, holds_until_the_filter_says_more_and_no_further_than_it_may)
{
	struct relay_rig rig;
	struct lines lines = { 0 };
	struct relay_options options = filtered(&lines, 10);

	relay_rig_build(&rig, 0);
	relay_rig_start(&rig, &options, "");
	relay_rig_say(rig.guest, "0123456789");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "-");
	cr_expect_eq(rig.ends, 0, "ten may be held");
	cr_expect(relay_has_filter(rig.relay));
	relay_rig_say(rig.guest, "a\nxyz");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "0123456789a\n");
	relay_rig_say(rig.guest, "4567890");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "-");
	cr_expect_eq(rig.ends, 0);
	relay_rig_say(rig.guest, "!");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "-");
	cr_expect_eq(rig.ends, 1);
	cr_expect_eq(rig.why, RELAY_END_HOLD_LIMIT);
	relay_rig_say(rig.guest, "\n");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "-", "nothing passes after that");
	relay_rig_tear_down(&rig);
}

Test(relay_filter, ends_with_what_was_held_only_if_the_filter_passes_it)
{
	static const struct {
		const char *said, *heard;
		int why; /* -1: goes on */
	} rows[] = {
		{ "whole\n", "whole\n.", -1 },
		{ "", ".", -1 },
		{ "whole\nPart", "whole\nPart.", -1 },
		{ "whole\nrest", "whole\n", RELAY_END_FILTER },
		{ "Xa\nP", "[gone]\nP.", -1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct relay_rig rig;
		struct lines lines = { 0 };
		struct relay_options options = filtered(&lines, 100);

		relay_rig_build(&rig, 0);
		relay_rig_start(&rig, &options, "");
		relay_rig_say(rig.guest, rows[i].said);
		relay_rig_finish(rig.guest);
		cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), rows[i].heard, "row %zu", i);
		cr_expect_eq(lines.ends_seen, 1, "row %zu", i);
		cr_expect_eq(rig.ends, rows[i].why == -1 ? 0 : 1);
		if (rows[i].why != -1)
			cr_expect_eq((int)rig.why, rows[i].why);
		relay_rig_tear_down(&rig);
	}
}

Test(relay_filter, stalls_a_way_until_it_is_resumed)
{
	struct relay_rig rig;
	struct lines lines = { 0 };
	struct relay_options options = filtered(&lines, 100);

	options.way[RELAY_DOWN].stalled = true;
	relay_rig_build(&rig, 0);
	relay_rig_start(&rig, &options, "");
	relay_rig_say(rig.origin, "early");
	relay_rig_say(rig.guest, "a\nS\nb\n");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "a\n");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.guest), "-", "stalled from the start");
	relay_rig_say(rig.guest, "c\n");
	relay_rig_finish(rig.guest);
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "-");
	relay_resume(rig.relay, RELAY_UP);
	relay_resume(rig.relay, RELAY_UP);
	cr_expect_eq(lines.ends_seen, 0, "never inside the call");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "S\nb\nc\n.");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.guest), "-");
	relay_resume(rig.relay, RELAY_DOWN);
	cr_expect_str_eq(relay_rig_heard(&rig, rig.guest), "early");
	cr_expect_eq(rig.ends, 0);
	relay_rig_tear_down(&rig);
}

static struct relay_filter_answer on_last_stall(void *arg, enum relay_way way, const uint8_t *bytes,
						size_t len, bool end)
{
	bool *may_end = arg;

	if (len > 0)
		return (struct relay_filter_answer){ .action = RELAY_PASS, .len = len };
	return (struct relay_filter_answer){ .action = *may_end ? RELAY_HOLD : RELAY_STALL };
}

Test(relay_filter, passes_on_no_end_while_stalled)
{
	struct relay_rig rig;
	bool may_end = false;
	struct relay_options options = { .filter_arg = &may_end };

	options.way[RELAY_UP].filter = on_last_stall;
	relay_rig_build(&rig, 0);
	relay_rig_start(&rig, &options, "");
	relay_rig_say(rig.guest, "all");
	relay_rig_finish(rig.guest);
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "all");
	relay_resume(rig.relay, RELAY_UP);
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "-", "asked again, and stalled again");
	may_end = true;
	relay_resume(rig.relay, RELAY_UP);
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), ".");
	relay_rig_tear_down(&rig);
}

Test(relay_filter, says_a_refusal_to_the_guest_after_a_filter_has_ended_it)
{
	for (size_t at_once = 0; at_once < 2; at_once++) {
		struct relay_rig rig;
		struct lines lines = { 0 };
		struct relay_options options = filtered(&lines, 100);

		relay_rig_build(&rig, 0);
		relay_rig_start(&rig, &options, "");
		relay_rig_say(rig.origin, "before ");
		relay_rig_say(rig.guest, "ok\nE\nmore\n");
		cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "ok\n", "what was judged passes, the rest never");
		cr_expect_eq(rig.ends, 1);
		cr_expect_eq(rig.why, RELAY_END_FILTER);
		relay_rig_say(rig.origin, "after");
		cr_expect_eq(relay_inject(rig.relay, RELAY_DOWN, (const uint8_t *)"403", 3), ERR_OK);
		rig.destroy_when_flushed = at_once == 1;
		relay_when_flushed(rig.relay, RELAY_DOWN, relay_rig_on_flushed, &rig);
		cr_expect_eq(rig.flushes, 0, "never inside the call");
		cr_expect(strncmp(relay_rig_heard(&rig, rig.guest), "before 403", 10) == 0);
		cr_expect_eq(rig.flushes, 1);
		cr_expect_eq(rig.ends, 1);
		relay_rig_tear_down(&rig);
	}
}

struct talker {
	struct relay *relay;
	unsigned asked;
};

/* Answers for the origin to every line, and puts a mark in front of what passes. */
static struct relay_filter_answer on_talk(void *arg, enum relay_way way, const uint8_t *bytes, size_t len, bool end)
{
	struct talker *talker = arg;
	const uint8_t *newline = len == 0 ? NULL : memchr(bytes, '\n', len);

	if (newline == NULL)
		return (struct relay_filter_answer){ .action = RELAY_HOLD };
	talker->asked++;
	cr_assert_eq(relay_inject(talker->relay, RELAY_DOWN, (const uint8_t *)"ack ", 4), ERR_OK);
	cr_assert_eq(relay_inject(talker->relay, RELAY_UP, (const uint8_t *)"> ", 2), ERR_OK);
	return (struct relay_filter_answer){ .action = RELAY_PASS, .len = (size_t)(newline - bytes) + 1 };
}

Test(relay_filter, keeps_the_order_of_what_a_filter_injects)
{
	struct relay_rig rig;
	struct talker talker = { 0 };
	struct relay_options options = { .filter_arg = &talker };

	options.way[RELAY_UP] = (struct relay_way_options){ .filter = on_talk, .hold_max = 100 };
	relay_rig_build(&rig, 0);
	relay_rig_start(&rig, &options, "");
	talker.relay = rig.relay;
	relay_rig_say(rig.guest, "a\nb\nc");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "> a\n> b\n");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.guest), "ack ack ");
	relay_rig_say(rig.guest, "d\n");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "> cd\n");
	cr_expect_str_eq(relay_rig_heard(&rig, rig.guest), "ack ");
	relay_rig_tear_down(&rig);
}

Test(relay_filter, bounds_what_is_injected_and_tells_when_it_is_gone)
{
	struct relay_rig rig;
	struct relay_options options = { .unsent_max = 1000 };
	static const uint8_t bytes[65536];
	uint64_t in = 0, total;
	size_t accepted = 0;
	enum err e;

	relay_rig_build(&rig, 0);
	relay_rig_start(&rig, &options, "");
	for (size_t n = 0; n < 3000; n++) {
		relay_rig_pour(rig.origin, &in, 1u << 30);
		loop_turn(rig.loop, 0);
	}
	cr_expect(!relay_is_flushed(rig.relay, RELAY_DOWN));
	cr_expect(relay_is_flushed(rig.relay, RELAY_UP));
	cr_expect_eq(relay_inject(rig.relay, RELAY_DOWN, bytes, sizeof(bytes) + 1), ERR_LIMIT);
	while ((e = relay_inject(rig.relay, RELAY_DOWN, bytes, 5000)) == ERR_OK)
		accepted += 5000;
	cr_expect_eq(e, ERR_LIMIT);
	cr_expect_leq(accepted, 66536);
	cr_expect_geq(accepted, 60000);
	relay_when_flushed(rig.relay, RELAY_DOWN, relay_rig_on_flushed, &rig);
	relay_rig_turn(&rig);
	cr_expect_eq(rig.flushes, 0);
	for (total = 0; rig.flushes == 0 && total < 1u << 30;) {
		uint8_t sink[65536];
		ssize_t n = recv(rig.guest, sink, sizeof(sink), MSG_DONTWAIT);

		total += n > 0 ? (uint64_t)n : 0;
		loop_turn(rig.loop, 0);
	}
	cr_expect_eq(rig.flushes, 1);
	/* Waiting for a way that is reset is over, too. */
	for (size_t n = 0; n < 3000; n++) {
		relay_rig_pour(rig.origin, &in, 1u << 30);
		loop_turn(rig.loop, 0);
	}
	relay_when_flushed(rig.relay, RELAY_DOWN, relay_rig_on_flushed, &rig);
	relay_rig_turn(&rig);
	cr_expect_eq(rig.flushes, 1);
	relay_rig_reset(&rig.guest);
	relay_rig_turn(&rig);
	cr_expect_eq(rig.flushes, 2);
	cr_expect_eq(rig.ends, 1);
	cr_expect_eq(relay_inject(rig.relay, RELAY_DOWN, bytes, 1), ERR_CLOSED);
	relay_rig_tear_down(&rig);
}

/* Replaces every "x" by much, and must be asked no further while that is in the way. */
static struct relay_filter_answer on_swell(void *arg, enum relay_way way, const uint8_t *bytes, size_t len,
					   bool end)
{
	static const uint8_t much[100000];

	if (len == 0)
		return (struct relay_filter_answer){ .action = RELAY_HOLD };
	if (bytes[0] == 'x')
		return (struct relay_filter_answer){ RELAY_REPLACE, 1, much, sizeof(much) };
	return (struct relay_filter_answer){ .action = RELAY_PASS, .len = 1 };
}

Test(relay_filter, asks_a_filter_no_further_while_its_replacement_is_in_the_way)
{
	struct relay_rig rig;
	struct relay_options options = { 0 };
	uint64_t total = 0;
	char said[1000];

	options.way[RELAY_UP] = (struct relay_way_options){ .filter = on_swell, .hold_max = 10 };
	relay_rig_build(&rig, 0);
	relay_rig_start(&rig, &options, "");
	memset(said, 'x', sizeof(said));
	fixture_send(rig.guest, said, sizeof(said));
	relay_rig_finish(rig.guest);
	for (size_t n = 0; n < 100000 && total < 100000000; n++) {
		static uint8_t sink[1 << 20];
		ssize_t got = recv(rig.origin, sink, sizeof(sink), MSG_DONTWAIT);

		total += got > 0 ? (uint64_t)got : 0;
		loop_turn(rig.loop, 0);
	}
	cr_expect_eq(total, 100000000, "%zu", (size_t)total);
	cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), ".");
	cr_expect_eq(rig.ends, 0);
	relay_rig_tear_down(&rig);
}

static struct relay_filter_answer on_nonsense(void *arg, enum relay_way way, const uint8_t *bytes, size_t len,
					      bool end)
{
	struct relay_filter_answer *a = arg;

	return *a;
}

Test(relay_filter, ends_on_an_answer_that_makes_no_sense)
{
	static struct relay_filter_answer rows[] = {
		{ .action = RELAY_PASS, .len = 0 },
		{ .action = RELAY_PASS, .len = 4 },
		{ .action = RELAY_REPLACE, .len = 0, .instead = (const uint8_t *)"a", .instead_len = 1 },
		{ .action = RELAY_REPLACE, .len = 4, .instead = (const uint8_t *)"a", .instead_len = 1 },
		{ .action = (enum relay_filter_action)99 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct relay_rig rig;
		struct relay_options options = { .filter_arg = &rows[i] };

		options.way[RELAY_UP] = (struct relay_way_options){ .filter = on_nonsense, .hold_max = 100 };
		relay_rig_build(&rig, 0);
		relay_rig_start(&rig, &options, "");
		relay_rig_say(rig.guest, "abc");
		cr_expect_str_eq(relay_rig_heard(&rig, rig.origin), "-", "row %zu", i);
		cr_expect_eq(rig.ends, 1);
		cr_expect_eq(rig.why, RELAY_END_FILTER);
		relay_rig_tear_down(&rig);
	}
}

Test(relay_filter, refuses_to_start_without_memory)
{
	struct relay_rig rig;
	struct lines lines = { 0 };
	struct relay_options options = filtered(&lines, 100);
	struct relay *r = NULL;

	relay_rig_build(&rig, 0);
	for (uint64_t nth = 1; nth <= 3; nth++) {
		alloc_fail_at(nth);
		cr_expect_eq(relay_start(rig.loop, &rig.worker, &relay_rig_metrics, rig.guest_fd, rig.origin_fd, &options,
					 (const uint8_t *)"first", 5, relay_rig_on_end, &rig, &r),
			     ERR_NO_MEMORY);
		cr_expect_null(r);
	}
	alloc_fail_at(0);
	relay_rig_turn(&rig);
	cr_expect_eq(rig.ends, 0);
	relay_rig_tear_down(&rig);
}
