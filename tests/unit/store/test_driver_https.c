/* The control plane's stream, as scripted servers give it. */
#include "store/driver_https.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "fixture.h"
#include "heard.h"
#include "web.h"

#define BEGIN "{\"f\":\"snap_begin\"}\n"
#define END(cursor) "{\"f\":\"snap_end\",\"cursor\":\"" cursor "\"}\n"
#define PUT_A "{\"f\":\"put\",\"k\":\"l/a\",\"env\":\"QQ==\"}\n"         /* A */
#define PUT_M "{\"f\":\"put\",\"k\":\"m\",\"env\":\"TQ==\"}\n"           /* M */
#define DEL(cursor) "{\"f\":\"del\",\"k\":\"l/a\",\"cursor\":\"" cursor "\"}\n"
#define MARK(cursor) "{\"f\":\"mark\",\"env\":\"Qg==\",\"cursor\":\"" cursor "\"}\n" /* B */
#define SNAPSHOT BEGIN PUT_A PUT_M END("c1")

/* Play the answers to a fresh source until `until` was heard; requests stay in `w`. */
static void play(struct web *w, struct heard *heard, const struct web_answer *answers, size_t count)
{
	struct loop *loop = loop_create();
	struct driver_https_options options = { .urls = w->url, .cell = "c 1" };
	struct frames_source *source;

	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(crypto_init(), ERR_OK);
	web_open(w, answers, count);
	cr_assert_eq(driver_https_open(loop, &options, &source), ERR_OK);
	heard->source = source;
	cr_assert_eq(frames_start(source, &heard_events, heard), ERR_OK);
	cr_assert(fixture_turn_until(loop, &heard->is_enough), "only: %s", heard->story);
	frames_close(source);
	web_close(w);
	loop_destroy(loop);
}

#define PLAY(heard, ...)                                                                  \
	static struct web web;                                                            \
	const struct web_answer answers[] = { __VA_ARGS__ };                              \
	play(&web, &(heard), answers, ARRAY_LEN(answers))

Test(driver_https, a_snapshot_and_what_changes_after_it_are_told_in_order)
{
	struct heard h = { .until = "mark(B) settled" };
	PLAY(h, { WEB_OK(SNAPSHOT DEL("c2") MARK("c2")), 0, true });

	cr_assert_str_eq(h.story, "begin put(l/a=A) put(m=M) end del(l/a) mark(B) settled ");
	cr_assert_not_null(strstr(web.requests[0], "GET /v1/cells/c%201/stream HTTP/1.1\r\n"));
	cr_assert_not_null(strstr(web.requests[0], "Accept: application/x-ndjson\r\n"));
	cr_assert_null(strstr(web.requests[0], "Prefer"));
}

Test(driver_https, a_lost_stream_goes_on_from_its_cursor)
{
	struct heard h = { .until = "del(l/a)" };
	PLAY(h, { WEB_OK(SNAPSHOT MARK("c1.5")), 3, false }, { NULL, 0, false }, { WEB_OK(DEL("c2")), 0, true });

	cr_assert_str_eq(h.story, "begin put(l/a=A) put(m=M) end mark(B) settled break(closed) break(closed) del(l/a) settled ");
	cr_assert_not_null(strstr(web.requests[1], "/stream?cursor=c1.5 HTTP"));
	cr_assert_not_null(strstr(web.requests[2], "/stream?cursor=c1.5 HTTP"));
}

Test(driver_https, half_a_snapshot_is_asked_for_again_from_the_start)
{
	struct heard h = { .until = "end " };
	PLAY(h, { WEB_OK(BEGIN PUT_A), 0, false }, { WEB_OK(SNAPSHOT), 0, true });

	cr_assert_str_eq(h.story, "begin put(l/a=A) break(closed) begin put(l/a=A) put(m=M) end settled ");
	cr_assert_null(strstr(web.requests[1], "cursor"));
}

Test(driver_https, a_later_snapshot_that_breaks_is_not_resumed_from_before_it)
{
	struct heard h = { .until = "begin put(l/a=A) break(closed) begin put(l/a=A) put(m=M) end " };
	PLAY(h, { WEB_OK(SNAPSHOT), 0, false }, { WEB_OK(BEGIN PUT_A), 0, false }, { WEB_OK(SNAPSHOT), 0, true });

	cr_assert_not_null(strstr(web.requests[1], "?cursor=c1 "));
	cr_assert_null(strstr(web.requests[2], "cursor"));
}

Test(driver_https, a_cursor_that_is_gone_starts_over)
{
	struct heard h = { .until = "begin put(l/a=A) put(m=M) end settled break(closed) break(compacted) begin" };
	PLAY(h, { WEB_OK(SNAPSHOT), 0, false },
	     { "HTTP/1.1 410 Gone\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 0, false }, { WEB_OK(SNAPSHOT), 0, true });

	cr_assert_not_null(strstr(web.requests[1], "?cursor=c1 "));
	cr_assert_null(strstr(web.requests[2], "cursor"));
}

Test(driver_https, bye_is_followed_and_resumed)
{
	struct heard h = { .until = "del(l/a)" };
	PLAY(h, { WEB_OK(SNAPSHOT "{\"f\":\"bye\",\"retry_ms\":20,\"why\":\"drain\"}\n" DEL("never")), 0, true },
	     { WEB_OK(DEL("c2")), 0, true });

	cr_assert_not_null(strstr(h.story, "end settled break(bye) "), "%s", h.story);
	cr_assert_not_null(strstr(web.requests[1], "?cursor=c1 "));
}

Test(driver_https, what_is_no_frame_or_out_of_place_breaks_the_stream_and_starts_over)
{
	static const char *const bad[] = {
		WEB_OK(SNAPSHOT "what\n"),
		WEB_OK(SNAPSHOT "{\"f\":\"later\"}\n"),
		WEB_OK(SNAPSHOT END("c2")),
		WEB_OK(BEGIN BEGIN),
		WEB_OK(BEGIN DEL("c1")),
		WEB_OK(DEL("c1")),
		WEB_OK(PUT_A),
		WEB_OK(MARK("c1")),
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct heard h = { .until = "break(malformed) begin put(l/a=A) put(m=M) end " };
		PLAY(h, { bad[i], 0, true }, { WEB_OK(SNAPSHOT), 0, true });

		cr_assert_null(strstr(web.requests[1], "cursor"), "%zu", i);
	}
}

Test(driver_https, an_endless_line_is_given_up_before_it_fills_memory)
{
	static char line[(1u << 20) + 200];
	struct heard h = { .until = "break(too_long) begin" };
	size_t head = (size_t)snprintf(line, sizeof(line), "%s", WEB_OK(""));

	memset(line + head, ' ', sizeof(line) - head - 1);
	PLAY(h, { line, 0, true }, { WEB_OK(SNAPSHOT), 0, true });
	cr_assert_eq(strncmp(h.story, "break(too_long) ", 16), 0);
}

Test(driver_https, the_listener_may_ask_to_list_again_in_any_event)
{
	static const char *const moments[] = { "mark(B)", "settled", "del(l/a)", "end " };

	for (size_t i = 0; i < ARRAY_LEN(moments); i++) {
		struct heard h = { .relist_at = moments[i], .until = "break(relist) begin put(l/a=A) put(m=M) end " };
		PLAY(h, { WEB_OK(SNAPSHOT MARK("c1") DEL("c2")), 0, true }, { WEB_OK(SNAPSHOT), 0, true });

		cr_assert_null(strstr(web.requests[1], "cursor"), "%s", moments[i]);
	}
}

Test(driver_https, refusals_are_told_by_kind)
{
	struct heard h = { .until = "begin" };
	PLAY(h, { "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 0, false },
	     { "HTTP/1.1 500 Oops\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 0, false },
	     { "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 0, false },
	     { WEB_OK(SNAPSHOT), 0, true });

	cr_assert_eq(strncmp(h.story, "break(denied) break(error) break(error) begin", 45), 0, "%s", h.story);
}

Test(driver_https, a_server_that_does_not_stream_is_polled)
{
	struct heard h = { .until = "mark(B) settled mark(B) settled" };
	PLAY(h, { "HTTP/1.1 406 Not Acceptable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 0, false },
	     { WEB_OK(SNAPSHOT), 0, false }, { WEB_OK(MARK("c2")), 0, false }, { WEB_OK(MARK("c3")), 0, false },
	     { WEB_OK(MARK("c4")), 0, true });

	cr_assert_str_eq(h.story, "break(error) begin put(l/a=A) put(m=M) end settled mark(B) settled mark(B) settled ");
	cr_assert_null(strstr(web.requests[0], "Prefer"));
	cr_assert_not_null(strstr(web.requests[1], "Prefer: wait=1\r\n"));
	cr_assert_not_null(strstr(web.requests[3], "?cursor=c2 "));
}

Test(driver_https, what_cannot_be_used_is_refused_at_once)
{
	static const struct driver_https_options bad[] = {
		{ .urls = "https://h:1", .cell = "" },
		{ .urls = "https://u@h:1", .cell = "c" },
		{ .urls = "https://h:1", .cell = "c", .tls = { .key = "/k" } },
	};
	struct loop *loop = loop_create();
	struct frames_source *source;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		cr_assert_eq(driver_https_open(loop, &bad[i], &source), ERR_INVALID);
	loop_destroy(loop);
}
