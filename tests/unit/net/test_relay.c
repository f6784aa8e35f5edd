/* A guest and an origin with a relay between them: order, ends, filters and bounds, over real sockets. */
#include "net/relay.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/attr.h"
#include "base/clock.h"
#include "fixture.h"
#include "net/sockopt.h"

static struct metrics metrics;

struct rig {
	struct loop *loop;
	struct pump_worker worker;
	struct relay *relay;
	int guest, guest_fd;   /* the guest's end, the relay's end; -1 once closed */
	int origin, origin_fd;
	size_t fds_before;
	unsigned ends, flushes;
	enum relay_end why;
	bool destroy_when_flushed;
};

static void on_end(void *arg, enum relay_end why)
{
	struct rig *rig = arg;

	rig->ends++;
	rig->why = why;
}

static void build(struct rig *rig, unsigned pipes)
{
	int pair[2];

	*rig = (struct rig){ .fds_before = fixture_fd_count() };
	rig->loop = loop_create();
	cr_assert_not_null(rig->loop);
	cr_assert_eq(pump_worker_init(&rig->worker, pipes), ERR_OK);
	fixture_tcp_pair(pair);
	rig->guest = pair[0];
	rig->guest_fd = pair[1];
	fixture_tcp_pair(pair);
	rig->origin_fd = pair[0];
	rig->origin = pair[1];
}

static void start(struct rig *rig, const struct relay_options *options, const char *first)
{
	cr_assert_eq(relay_start(rig->loop, &rig->worker, &metrics, rig->guest_fd, rig->origin_fd, options,
				 (const uint8_t *)first, strlen(first), on_end, rig, &rig->relay),
		     ERR_OK);
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_relay(struct rig *rig)
{
	relay_destroy(rig->relay);
	rig->relay = NULL;
	close_one(&rig->guest_fd);
	close_one(&rig->origin_fd);
}

static void tear_down(struct rig *rig)
{
	close_relay(rig);
	close_one(&rig->guest);
	close_one(&rig->origin);
	cr_expect_eq(rig->worker.pipes_lent, 0);
	pump_worker_finish(&rig->worker);
	loop_destroy(rig->loop);
	cr_expect_eq(fixture_fd_count(), rig->fds_before);
}

static void turn(struct rig *rig)
{
	for (unsigned n = 0; n < 20; n++)
		loop_turn(rig->loop, n == 0 ? 5 : 0);
}

/* What `fd` has received by now, as text: "-" for nothing, "." behind it for FIN, "!" for RST. */
static const char *heard(struct rig *rig, int fd)
{
	static char text[4096];
	size_t len = 0;
	ssize_t n;

	turn(rig);
	for (;;) {
		n = recv(fd, text + len, sizeof(text) - len - 2, MSG_DONTWAIT);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	if (n == 0)
		text[len++] = '.';
	else if (errno != EAGAIN)
		text[len++] = '!';
	else if (len == 0)
		text[len++] = '-';
	text[len] = '\0';
	return text;
}

static void say(int fd, const char *text)
{
	fixture_send(fd, text, strlen(text));
}

static void finish(int fd)
{
	cr_assert_eq(shutdown(fd, SHUT_WR), 0);
}

static void reset(int *fd)
{
	cr_assert_eq(sockopt_reset_on_close(*fd), ERR_OK);
	close_one(fd);
}

Test(relay, carries_both_ways_what_was_read_before_first)
{
	struct rig rig;
	struct relay_options options = { 0 };
	struct relay_counts counts;

	build(&rig, 0);
	say(rig.guest, "second");
	start(&rig, &options, "first ");
	cr_expect_str_eq(heard(&rig, rig.origin), "first second");
	say(rig.origin, "answer");
	cr_expect_str_eq(heard(&rig, rig.guest), "answer");
	cr_expect_str_eq(heard(&rig, rig.origin), "-");
	relay_count(rig.relay, &counts);
	cr_expect_eq(counts.bytes[RELAY_UP], 12);
	cr_expect_eq(counts.bytes[RELAY_DOWN], 6);
	cr_expect(counts.any_read[RELAY_UP] && counts.any_read[RELAY_DOWN]);
	cr_expect(!counts.ended[RELAY_UP] && !counts.ended[RELAY_DOWN]);
	cr_expect_eq(rig.ends, 0);
	tear_down(&rig);
	relay_destroy(NULL);
}

/* What one side does: stays, finishes, resets. */
enum deed { STAYS, FINISHES, RESETS, DEEDS };

static void act(enum deed deed, int *fd, const char *last_words)
{
	if (deed == STAYS)
		return;
	say(*fd, last_words);
	if (deed == FINISHES)
		finish(*fd);
	else
		reset(fd);
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
			struct rig rig;
			struct relay_options options = { 0 };

			build(&rig, 0);
			start(&rig, &options, "");
			/* A reset takes unread words with it, so that whoever resets says nothing. */
			act(guest, &rig.guest, guest == RESETS ? "" : "up");
			act(origin, &rig.origin, origin == RESETS ? "" : "down");
			turn(&rig);
			if (rows[guest][origin].why == -1) {
				cr_expect_eq(rig.ends, 0, "%d %d", guest, origin);
			} else {
				cr_expect_eq(rig.ends, 1, "%d %d", guest, origin);
				if (rows[guest][origin].why >= 0)
					cr_expect_eq((int)rig.why, rows[guest][origin].why, "%d %d: %d", guest,
						     origin, rig.why);
				close_relay(&rig);
			}
			if (rows[guest][origin].guest_hears != NULL)
				cr_expect_str_eq(heard(&rig, rig.guest), rows[guest][origin].guest_hears,
						 "guest, %d %d", guest, origin);
			if (rows[guest][origin].origin_hears != NULL)
				cr_expect_str_eq(heard(&rig, rig.origin), rows[guest][origin].origin_hears,
						 "origin, %d %d", guest, origin);
			tear_down(&rig);
		}
	}
}

Test(relay, goes_on_the_other_way_after_one_has_finished)
{
	for (size_t side = 0; side < 2; side++) {
		struct rig rig;
		struct relay_options options = { 0 };
		struct relay_counts counts;
		int *first, *second;

		build(&rig, 0);
		start(&rig, &options, "");
		first = side == 0 ? &rig.guest : &rig.origin;
		second = side == 0 ? &rig.origin : &rig.guest;
		say(*first, "question");
		finish(*first);
		cr_expect_str_eq(heard(&rig, *second), "question.");
		relay_count(rig.relay, &counts);
		cr_expect_eq(counts.ended[RELAY_UP], side == 0);
		cr_expect_eq(counts.ended[RELAY_DOWN], side == 1);
		cr_expect_eq(relay_inject(rig.relay, side == 0 ? RELAY_UP : RELAY_DOWN, (const uint8_t *)"x", 1),
			     ERR_CLOSED);
		for (size_t n = 0; n < 3; n++) {
			say(*second, "part");
			cr_expect_str_eq(heard(&rig, *first), "part");
		}
		cr_expect_eq(rig.ends, 0);
		finish(*second);
		cr_expect_str_eq(heard(&rig, *first), ".");
		cr_expect_eq(rig.ends, 1);
		cr_expect_eq(rig.why, RELAY_END_DONE);
		turn(&rig);
		cr_expect_eq(rig.ends, 1, "once");
		tear_down(&rig);
	}
}

Test(relay, resets_whoever_talks_to_a_side_that_is_gone)
{
	struct rig rig;
	struct relay_options options = { 0 };

	build(&rig, 0);
	start(&rig, &options, "");
	close_one(&rig.guest); /* not a reset: the relay takes it for a half-close */
	turn(&rig);
	cr_expect_eq(rig.ends, 0);
	for (size_t n = 0; n < 10 && rig.ends == 0; n++) {
		say(rig.origin, "answer");
		turn(&rig);
	}
	cr_expect_eq(rig.ends, 1);
	cr_expect_eq(rig.why, RELAY_END_GUEST_RESET);
	close_relay(&rig);
	turn(&rig);
	cr_expect_eq(send(rig.origin, "x", 1, MSG_NOSIGNAL), -1, "it heard the FIN, and then the reset");
	cr_expect_eq(errno, EPIPE);
	tear_down(&rig);
}

/* A stream that can be checked at any place. */
static uint8_t byte_at(uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ULL;

	return (uint8_t)(x >> 56 ^ x >> 24);
}

/* Write what goes into `fd` of the stream that is at *at. */
static void pour(int fd, uint64_t *at, uint64_t len)
{
	static uint8_t bytes[65536];
	uint64_t left = len - *at;
	size_t n = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
	ssize_t sent;

	for (size_t i = 0; i < n; i++)
		bytes[i] = byte_at(*at + i);
	sent = n == 0 ? 0 : send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	*at += sent > 0 ? (uint64_t)sent : 0;
}

static void drink(int fd, uint64_t *at, size_t max)
{
	static uint8_t bytes[65536];
	ssize_t n = recv(fd, bytes, max < sizeof(bytes) ? max : sizeof(bytes), MSG_DONTWAIT);

	for (ssize_t i = 0; i < n; i++)
		cr_assert_eq(bytes[i], byte_at(*at + (uint64_t)i), "byte %zu", (size_t)*at + (size_t)i);
	*at += n > 0 ? (uint64_t)n : 0;
}

static uint64_t counted(enum metric id)
{
	return atomic_load(&metrics.value[id]);
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
		struct rig rig;
		struct relay_options options = { .may_splice = rows[i].may_splice };
		struct relay_counts counts;
		uint64_t up_in = 0, up_out = 0, down_in = 0, down_out = 0;
		uint64_t spliced = counted(METRIC_SPLICED), copied = counted(METRIC_COPIED);

		build(&rig, rows[i].pipes);
		start(&rig, &options, "");
		for (size_t n = 0; n < 200000 && (up_out < len || down_out < len); n++) {
			pour(rig.guest, &up_in, len);
			pour(rig.origin, &down_in, len);
			loop_turn(rig.loop, 0);
			drink(rig.origin, &up_out, rows[i].sip);
			drink(rig.guest, &down_out, rows[i].sip);
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
		finish(rig.guest);
		finish(rig.origin);
		turn(&rig);
		cr_expect_eq(rig.ends, 1);
		cr_expect_eq(rig.why, RELAY_END_DONE);
		tear_down(&rig);
	}
}

Test(relay, gives_back_the_pipe_of_a_session_that_dies_with_bytes_in_it)
{
	for (size_t by_reset = 0; by_reset < 2; by_reset++) {
		struct rig rig;
		struct relay_options options = { .may_splice = true };
		uint64_t in = 0;

		build(&rig, 1);
		start(&rig, &options, "");
		for (size_t n = 0; n < 3000; n++) {
			pour(rig.origin, &in, 1u << 30);
			loop_turn(rig.loop, 0);
		}
		cr_expect_eq(rig.worker.pipes_lent, 1, "the guest does not read");
		if (by_reset == 1) {
			reset(&rig.guest);
			turn(&rig);
			cr_expect_eq(rig.ends, 1);
			cr_expect_eq(rig.why, RELAY_END_GUEST_RESET);
		} else {
			close_relay(&rig);
		}
		cr_expect_eq(rig.worker.pipes_lent, 0);
		cr_expect_eq(rig.worker.pipe_count, 1);
		tear_down(&rig);
	}
}

Test(relay, reads_no_more_than_a_slow_receiver_lets_it)
{
	for (size_t may_splice = 0; may_splice < 2; may_splice++) {
		struct rig rig;
		struct relay_options options = { .may_splice = may_splice == 1, .unsent_max = 65536 };
		int pair[2], small = 16384;
		uint64_t in = 0, out = 0, before;

		build(&rig, 1);
		/* Unix sockets, whose queues are exactly as long as the sender's buffer. */
		close_one(&rig.guest);
		close_one(&rig.guest_fd);
		close_one(&rig.origin);
		close_one(&rig.origin_fd);
		fixture_unix_pair(pair);
		rig.guest = pair[0];
		rig.guest_fd = pair[1];
		fixture_unix_pair(pair);
		rig.origin = pair[0];
		rig.origin_fd = pair[1];
		cr_assert_eq(setsockopt(rig.guest_fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
		cr_assert_eq(setsockopt(rig.origin, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
		start(&rig, &options, "");
		for (size_t n = 0; n < 2000; n++) {
			pour(rig.origin, &in, 1u << 30);
			loop_turn(rig.loop, 0);
		}
		cr_expect_lt(in, 2 * 2 * 16384 + 65536 + 65536, "%zu", (size_t)in);
		/* A sip lets as much in. */
		before = in;
		for (size_t n = 0; n < 200; n++) {
			drink(rig.guest, &out, 1000);
			loop_turn(rig.loop, 0);
			pour(rig.origin, &in, 1u << 30);
		}
		cr_expect_gt(in, before);
		cr_expect_lt(in - out, 2 * 2 * 16384 + 65536 + 65536);
		while (out < in) {
			loop_turn(rig.loop, 0);
			drink(rig.guest, &out, 65536);
		}
		tear_down(&rig);
	}
}

/* --- filters --- */

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

Test(relay, lets_a_filter_see_every_byte_at_every_cut)
{
	static const char said[] = "ab\nXsecret\n\nP\nXX\ncdefg\nOpaque\nXnow passes";
	static const char heard_whole[] = "ab\n[gone]\n\nP\n[gone]\ncdefg\nOpaque\nXnow passes";

	for (size_t cut = 0; cut <= strlen(said); cut++) {
		struct rig rig;
		struct lines lines = { 0 };
		struct relay_options options = filtered(&lines, 64);
		char first[64];

		snprintf(first, sizeof(first), "%.*s", (int)cut, said);
		build(&rig, 0);
		/* The first cut comes as what was read before, the second as bytes one by one. */
		start(&rig, &options, first);
		if (cut % 8 == 3) {
			for (size_t i = cut; i < strlen(said); i++) {
				fixture_send(rig.guest, said + i, 1);
				loop_turn(rig.loop, 5);
			}
		} else {
			say(rig.guest, said + cut);
		}
		cr_expect_str_eq(heard(&rig, rig.origin), heard_whole, "cut %zu", cut);
		cr_expect_eq(lines.calls_after_opaque, 0);
		cr_expect_eq(rig.ends, 0);
		tear_down(&rig);
	}
}

Test(relay, holds_until_the_filter_says_more_and_no_further_than_it_may)
{
	struct rig rig;
	struct lines lines = { 0 };
	struct relay_options options = filtered(&lines, 10);

	build(&rig, 0);
	start(&rig, &options, "");
	say(rig.guest, "0123456789");
	cr_expect_str_eq(heard(&rig, rig.origin), "-");
	cr_expect_eq(rig.ends, 0, "ten may be held");
	say(rig.guest, "a\nxyz");
	cr_expect_str_eq(heard(&rig, rig.origin), "0123456789a\n");
	say(rig.guest, "4567890");
	cr_expect_str_eq(heard(&rig, rig.origin), "-");
	cr_expect_eq(rig.ends, 0);
	say(rig.guest, "!");
	cr_expect_str_eq(heard(&rig, rig.origin), "-");
	cr_expect_eq(rig.ends, 1);
	cr_expect_eq(rig.why, RELAY_END_HOLD_LIMIT);
	say(rig.guest, "\n");
	cr_expect_str_eq(heard(&rig, rig.origin), "-", "nothing passes after that");
	tear_down(&rig);
}

Test(relay, ends_with_what_was_held_only_if_the_filter_passes_it)
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
		struct rig rig;
		struct lines lines = { 0 };
		struct relay_options options = filtered(&lines, 100);

		build(&rig, 0);
		start(&rig, &options, "");
		say(rig.guest, rows[i].said);
		finish(rig.guest);
		cr_expect_str_eq(heard(&rig, rig.origin), rows[i].heard, "row %zu", i);
		cr_expect_eq(lines.ends_seen, 1, "row %zu", i);
		cr_expect_eq(rig.ends, rows[i].why == -1 ? 0 : 1);
		if (rows[i].why != -1)
			cr_expect_eq((int)rig.why, rows[i].why);
		tear_down(&rig);
	}
}

Test(relay, stalls_a_way_until_it_is_resumed)
{
	struct rig rig;
	struct lines lines = { 0 };
	struct relay_options options = filtered(&lines, 100);

	options.way[RELAY_DOWN].stalled = true;
	build(&rig, 0);
	start(&rig, &options, "");
	say(rig.origin, "early");
	say(rig.guest, "a\nS\nb\n");
	cr_expect_str_eq(heard(&rig, rig.origin), "a\n");
	cr_expect_str_eq(heard(&rig, rig.guest), "-", "stalled from the start");
	say(rig.guest, "c\n");
	finish(rig.guest);
	cr_expect_str_eq(heard(&rig, rig.origin), "-");
	relay_resume(rig.relay, RELAY_UP);
	relay_resume(rig.relay, RELAY_UP);
	cr_expect_eq(lines.ends_seen, 0, "never inside the call");
	cr_expect_str_eq(heard(&rig, rig.origin), "S\nb\nc\n.");
	cr_expect_str_eq(heard(&rig, rig.guest), "-");
	relay_resume(rig.relay, RELAY_DOWN);
	cr_expect_str_eq(heard(&rig, rig.guest), "early");
	cr_expect_eq(rig.ends, 0);
	tear_down(&rig);
}

static struct relay_filter_answer on_last_stall(void *arg, enum relay_way way, const uint8_t *bytes,
						size_t len, bool end)
{
	bool *may_end = arg;

	if (len > 0)
		return (struct relay_filter_answer){ .action = RELAY_PASS, .len = len };
	return (struct relay_filter_answer){ .action = *may_end ? RELAY_HOLD : RELAY_STALL };
}

Test(relay, passes_on_no_end_while_stalled)
{
	struct rig rig;
	bool may_end = false;
	struct relay_options options = { .filter_arg = &may_end };

	options.way[RELAY_UP].filter = on_last_stall;
	build(&rig, 0);
	start(&rig, &options, "");
	say(rig.guest, "all");
	finish(rig.guest);
	cr_expect_str_eq(heard(&rig, rig.origin), "all");
	relay_resume(rig.relay, RELAY_UP);
	cr_expect_str_eq(heard(&rig, rig.origin), "-", "asked again, and stalled again");
	may_end = true;
	relay_resume(rig.relay, RELAY_UP);
	cr_expect_str_eq(heard(&rig, rig.origin), ".");
	tear_down(&rig);
}

static void on_flushed(void *arg)
{
	struct rig *rig = arg;

	rig->flushes++;
	if (rig->destroy_when_flushed)
		close_relay(rig);
}

Test(relay, says_a_refusal_to_the_guest_after_a_filter_has_ended_it)
{
	for (size_t at_once = 0; at_once < 2; at_once++) {
		struct rig rig;
		struct lines lines = { 0 };
		struct relay_options options = filtered(&lines, 100);

		build(&rig, 0);
		start(&rig, &options, "");
		say(rig.origin, "before ");
		say(rig.guest, "ok\nE\nmore\n");
		cr_expect_str_eq(heard(&rig, rig.origin), "ok\n", "what was judged passes, the rest never");
		cr_expect_eq(rig.ends, 1);
		cr_expect_eq(rig.why, RELAY_END_FILTER);
		say(rig.origin, "after");
		cr_expect_eq(relay_inject(rig.relay, RELAY_DOWN, (const uint8_t *)"403", 3), ERR_OK);
		rig.destroy_when_flushed = at_once == 1;
		relay_when_flushed(rig.relay, RELAY_DOWN, on_flushed, &rig);
		cr_expect_eq(rig.flushes, 0, "never inside the call");
		cr_expect(strncmp(heard(&rig, rig.guest), "before 403", 10) == 0);
		cr_expect_eq(rig.flushes, 1);
		cr_expect_eq(rig.ends, 1);
		tear_down(&rig);
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

Test(relay, keeps_the_order_of_what_a_filter_injects)
{
	struct rig rig;
	struct talker talker = { 0 };
	struct relay_options options = { .filter_arg = &talker };

	options.way[RELAY_UP] = (struct relay_way_options){ .filter = on_talk, .hold_max = 100 };
	build(&rig, 0);
	start(&rig, &options, "");
	talker.relay = rig.relay;
	say(rig.guest, "a\nb\nc");
	cr_expect_str_eq(heard(&rig, rig.origin), "> a\n> b\n");
	cr_expect_str_eq(heard(&rig, rig.guest), "ack ack ");
	say(rig.guest, "d\n");
	cr_expect_str_eq(heard(&rig, rig.origin), "> cd\n");
	cr_expect_str_eq(heard(&rig, rig.guest), "ack ");
	tear_down(&rig);
}

Test(relay, bounds_what_is_injected_and_tells_when_it_is_gone)
{
	struct rig rig;
	struct relay_options options = { .unsent_max = 1000 };
	static const uint8_t bytes[65536];
	uint64_t in = 0, total;
	size_t accepted = 0;
	enum err e;

	build(&rig, 0);
	start(&rig, &options, "");
	for (size_t n = 0; n < 3000; n++) {
		pour(rig.origin, &in, 1u << 30);
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
	relay_when_flushed(rig.relay, RELAY_DOWN, on_flushed, &rig);
	turn(&rig);
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
		pour(rig.origin, &in, 1u << 30);
		loop_turn(rig.loop, 0);
	}
	relay_when_flushed(rig.relay, RELAY_DOWN, on_flushed, &rig);
	turn(&rig);
	cr_expect_eq(rig.flushes, 1);
	reset(&rig.guest);
	turn(&rig);
	cr_expect_eq(rig.flushes, 2);
	cr_expect_eq(rig.ends, 1);
	cr_expect_eq(relay_inject(rig.relay, RELAY_DOWN, bytes, 1), ERR_CLOSED);
	tear_down(&rig);
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

Test(relay, asks_a_filter_no_further_while_its_replacement_is_in_the_way)
{
	struct rig rig;
	struct relay_options options = { 0 };
	uint64_t total = 0;
	char said[1000];

	options.way[RELAY_UP] = (struct relay_way_options){ .filter = on_swell, .hold_max = 10 };
	build(&rig, 0);
	start(&rig, &options, "");
	memset(said, 'x', sizeof(said));
	fixture_send(rig.guest, said, sizeof(said));
	finish(rig.guest);
	for (size_t n = 0; n < 100000 && total < 100000000; n++) {
		static uint8_t sink[1 << 20];
		ssize_t got = recv(rig.origin, sink, sizeof(sink), MSG_DONTWAIT);

		total += got > 0 ? (uint64_t)got : 0;
		loop_turn(rig.loop, 0);
	}
	cr_expect_eq(total, 100000000, "%zu", (size_t)total);
	cr_expect_str_eq(heard(&rig, rig.origin), ".");
	cr_expect_eq(rig.ends, 0);
	tear_down(&rig);
}

static struct relay_filter_answer on_nonsense(void *arg, enum relay_way way, const uint8_t *bytes, size_t len,
					      bool end)
{
	struct relay_filter_answer *a = arg;

	return *a;
}

Test(relay, ends_on_an_answer_that_makes_no_sense)
{
	static struct relay_filter_answer rows[] = {
		{ .action = RELAY_PASS, .len = 0 },
		{ .action = RELAY_PASS, .len = 4 },
		{ .action = RELAY_REPLACE, .len = 0, .instead = (const uint8_t *)"a", .instead_len = 1 },
		{ .action = RELAY_REPLACE, .len = 4, .instead = (const uint8_t *)"a", .instead_len = 1 },
		{ .action = (enum relay_filter_action)99 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rig rig;
		struct relay_options options = { .filter_arg = &rows[i] };

		options.way[RELAY_UP] = (struct relay_way_options){ .filter = on_nonsense, .hold_max = 100 };
		build(&rig, 0);
		start(&rig, &options, "");
		say(rig.guest, "abc");
		cr_expect_str_eq(heard(&rig, rig.origin), "-", "row %zu", i);
		cr_expect_eq(rig.ends, 1);
		cr_expect_eq(rig.why, RELAY_END_FILTER);
		tear_down(&rig);
	}
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
		struct rig rigs[2];
		struct relay_rate rate = { .bytes_per_s = rates[i] };
		struct relay_options options = { .rate = &rate, .may_splice = true };
		uint64_t in = 0, out = 0, in2 = 0, out2 = 0;

		scripted_ns = 5000000000;
		clock_use(&scripted);
		build(&rigs[0], 1);
		build(&rigs[1], 1);
		start(&rigs[0], &options, "");
		start(&rigs[1], &options, "");
		for (unsigned half_seconds = 0; half_seconds < 5; half_seconds++) {
			uint64_t allowed = rates[i] + rates[i] * half_seconds / 2;

			for (unsigned n = 0; n < 1000 && out + out2 < allowed; n++) {
				pour(rigs[0].origin, &in, 1u << 30);
				pour(rigs[1].guest, &in2, 1u << 30);
				loop_turn(rigs[0].loop, n > 50 ? 1 : 0);
				loop_turn(rigs[1].loop, n > 50 ? 1 : 0);
				drink(rigs[0].guest, &out, 65536);
				drink(rigs[1].origin, &out2, 65536);
			}
			cr_expect_leq(out + out2, allowed, "%zu B/s after %u half seconds", (size_t)rates[i],
				      half_seconds);
			/* What is left in the bucket is less than would wake anybody. */
			cr_expect_geq(out + out2 + 16384, allowed);
			cr_expect_geq((out + out2) * 100, (allowed - allowed / 20) * 90);
			scripted_ns += 500000000;
		}
		clock_use(NULL);
		tear_down(&rigs[1]);
		tear_down(&rigs[0]);
	}
}

Test(relay, refuses_to_start_without_memory)
{
	struct rig rig;
	struct lines lines = { 0 };
	struct relay_options options = filtered(&lines, 100);
	struct relay *r = NULL;

	build(&rig, 0);
	for (uint64_t nth = 1; nth <= 3; nth++) {
		alloc_fail_at(nth);
		cr_expect_eq(relay_start(rig.loop, &rig.worker, &metrics, rig.guest_fd, rig.origin_fd, &options,
					 (const uint8_t *)"first", 5, on_end, &rig, &r),
			     ERR_NO_MEMORY);
		cr_expect_null(r);
	}
	alloc_fail_at(0);
	turn(&rig);
	cr_expect_eq(rig.ends, 0);
	tear_down(&rig);
}

Test(relay, resets_both_when_memory_for_the_unsent_runs_out)
{
	for (uint64_t nth = 1; nth <= 2; nth++) {
		struct rig rig;
		struct relay_options options = { 0 };
		uint64_t in = 0;

		build(&rig, 0);
		start(&rig, &options, "");
		for (size_t n = 0; n < 3000 && rig.ends == 0; n++) {
			pour(rig.origin, &in, 1u << 30);
			alloc_fail_at(nth);
			loop_turn(rig.loop, 0);
		}
		alloc_fail_at(0);
		cr_expect_eq(rig.ends, 1);
		cr_expect_eq(rig.why, RELAY_END_MEMORY);
		close_relay(&rig);
		while (recv(rig.guest, &in, sizeof(in), MSG_DONTWAIT) > 0)
			;
		cr_expect_eq(errno, ECONNRESET, "a cut download does not look complete");
		tear_down(&rig);
	}
}
