/* Requests against a server that answers as the script says. */
#include "store/http.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "fixture.h"
#include "web.h"

struct client {
	struct loop *loop;
	struct http *http;
	struct http_request *request;
	char lines[16][64];
	size_t line_count, cancel_at; /* cancel_at: in the nth line, from 1 */
	bool is_done, is_enough;
	struct http_outcome outcome;
	char body[8192];
};

static void on_line(void *arg, struct text line)
{
	struct client *c = arg;

	cr_assert_not(c->is_done);
	if (c->line_count < 16)
		snprintf(c->lines[c->line_count], 64, "%.*s", (int)line.len, line.at);
	c->line_count++;
	if (c->line_count == c->cancel_at) {
		http_cancel(c->request);
		c->is_enough = true;
	}
}

static void on_done(void *arg, const struct http_outcome *outcome)
{
	struct client *c = arg;

	cr_assert_not(c->is_done || c->is_enough);
	c->is_done = c->is_enough = true;
	c->outcome = *outcome;
	cr_assert_lt(outcome->body.len, sizeof(c->body));
	memcpy(c->body, outcome->body.at, outcome->body.len);
	c->body[outcome->body.len] = '\0';
}

static const struct http_events by_line = { on_line, on_done };
static const struct http_events whole = { NULL, on_done };

static void open_client(struct client *c)
{
	struct http_options options = { 0 };

	signal(SIGPIPE, SIG_IGN);
	memset(c, 0, sizeof(*c));
	cr_assert_eq(crypto_init(), ERR_OK);
	c->loop = loop_create();
	cr_assert_eq(http_create(c->loop, &options, &c->http), ERR_OK);
}

static void close_client(struct client *c)
{
	http_destroy(c->http);
	loop_destroy(c->loop);
}

static struct http_request_options ask(const struct web *w)
{
	return (struct http_request_options){ .url = w->url, .line_max = 32, .body_max = 5000, .connect_ms = 5000 };
}

/* Ask once and turn until it is over. */
static void run(struct client *c, const struct web_answer *answer, const struct http_events *events)
{
	struct http_request_options options;
	struct web w;

	web_open(&w, answer, 1);
	options = ask(&w);
	c->line_count = 0;
	c->is_done = c->is_enough = false;
	cr_assert_eq(http_start(c->http, &options, events, c, &c->request), ERR_OK);
	cr_assert_not(c->is_done, "it called back before it returned");
	cr_assert(fixture_turn_until(c->loop, &c->is_enough));
	fixture_settle(c->loop);
	web_close(&w);
}

Test(http, lines_come_whole_however_they_were_cut)
{
	static const size_t pieces[] = { 0, 1, 2, 3, 7, 50 };
	struct client c;

	open_client(&c);
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		struct web_answer answer = { WEB_OK("one\n\n3 three\nunfinished"), pieces[i], false };

		run(&c, &answer, &by_line);
		cr_assert_eq(c.outcome.end, HTTP_END_ANSWERED, "%s", c.outcome.error);
		cr_assert_eq(c.outcome.status, 200);
		cr_assert_eq(c.line_count, 3);
		cr_assert_str_eq(c.lines[0], "one");
		cr_assert_str_eq(c.lines[1], "");
		cr_assert_str_eq(c.lines[2], "3 three");
	}
	close_client(&c);
}

Test(http, a_line_of_its_limit_passes_and_one_byte_more_ends_it)
{
	static const struct web_answer answers[] = {
		{ WEB_OK("12345678901234567890123456789012\n"), 0, false },
		{ WEB_OK("123456789012345678901234567890123\n"), 0, false },
		{ WEB_OK("12345678901234567890123456789012"
			 "3"),
		  1, false },
	};
	struct client c;

	open_client(&c);
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		run(&c, &answers[i], &by_line);
		cr_assert_eq(c.outcome.end, i == 0 ? HTTP_END_ANSWERED : HTTP_END_TOO_LONG);
		cr_assert_eq(c.line_count, i == 0 ? 1 : 0);
	}
	close_client(&c);
}

Test(http, a_cancelled_request_never_calls_back)
{
	struct web_answer answer = { WEB_OK("one\ntwo\nthree\n"), 0, true };
	struct client c;

	open_client(&c);
	c.cancel_at = 2;
	run(&c, &answer, &by_line);
	cr_assert_eq(c.line_count, 2);
	cr_assert_not(c.is_done);
	close_client(&c);
}

Test(http, a_whole_answer_is_gathered_within_its_limit)
{
	static char body[6000] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
	struct web_answer answer = { body, 0, false };
	size_t head = strlen(body);
	struct client c;

	open_client(&c);
	memset(body + head, 'x', 5000);
	run(&c, &answer, &whole);
	cr_assert_eq(c.outcome.end, HTTP_END_ANSWERED);
	cr_assert_eq(c.outcome.body.len, 5000);
	body[head + 5000] = 'x';
	run(&c, &answer, &whole);
	cr_assert_eq(c.outcome.end, HTTP_END_TOO_LONG);
	close_client(&c);
}

Test(http, an_error_is_an_answer_whose_lines_are_not_told)
{
	struct web_answer answer = { "HTTP/1.1 410 Gone\r\nConnection: close\r\n\r\n{}\n", 0, false };
	struct web_answer away = { "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nConnection: close\r\n\r\n", 0, false };
	struct client c;

	open_client(&c);
	run(&c, &answer, &by_line);
	cr_assert_eq(c.outcome.status, 410);
	cr_assert_eq(c.line_count, 0);
	cr_assert_str_eq(c.body, "{}\n");
	run(&c, &away, &by_line);
	cr_assert_eq(c.outcome.end, HTTP_END_ANSWERED);
	cr_assert_eq(c.outcome.status, 302, "redirects are not followed");
	close_client(&c);
}

Test(http, what_hangs_up_or_is_not_there_fails)
{
	struct http_request_options options = { .url = "http://127.0.0.1:1/", .line_max = 10, .connect_ms = 5000 };
	struct web_answer answer = { NULL, 0, false };
	struct client c;

	open_client(&c);
	run(&c, &answer, &by_line);
	cr_assert_eq(c.outcome.end, HTTP_END_FAILED);
	cr_assert_eq(c.outcome.status, 0);
	c.is_done = c.is_enough = false;
	cr_assert_eq(http_start(c.http, &options, &by_line, &c, &c.request), ERR_OK);
	cr_assert(fixture_turn_until(c.loop, &c.is_enough));
	cr_assert_eq(c.outcome.end, HTTP_END_FAILED);
	options.url = "file:///etc/passwd";
	c.is_done = c.is_enough = false;
	cr_assert_eq(http_start(c.http, &options, &by_line, &c, &c.request), ERR_OK);
	cr_assert(fixture_turn_until(c.loop, &c.is_enough));
	cr_assert_eq(c.outcome.end, HTTP_END_FAILED);
	close_client(&c);
}

Test(http, a_post_carries_body_and_headers_and_no_proxy_is_asked)
{
	struct web_answer answer = { WEB_OK("thanks"), 0, false };
	struct http_request_options options;
	struct client c;
	struct web w;

	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
	open_client(&c);
	web_open(&w, &answer, 1);
	options = ask(&w);
	options.body = text_of("{\"a\":1}");
	options.headers[0] = "Content-Type: application/json";
	cr_assert_eq(http_start(c.http, &options, &whole, &c, &c.request), ERR_OK);
	cr_assert(fixture_turn_until(c.loop, &c.is_enough));
	cr_assert_str_eq(c.body, "thanks");
	cr_assert_eq(strncmp(w.requests[0], "POST / HTTP/1.1\r\n", 17), 0);
	cr_assert_not_null(strstr(w.requests[0], "\r\nContent-Type: application/json\r\n"));
	cr_assert_not_null(strstr(w.requests[0], "\r\n\r\n{\"a\":1}"));
	options.headers[0] = "X: 1\r\nY: 2";
	cr_assert_eq(http_start(c.http, &options, &whole, &c, &c.request), ERR_INVALID);
	web_close(&w);
	close_client(&c);
}

Test(http, an_answer_that_never_comes_times_out_and_leaves_nothing_open)
{
	struct web_answer answer = { "", 0, true };
	struct http_request_options options;
	size_t before = fixture_fd_count();
	struct client c;
	struct web w;

	open_client(&c);
	web_open(&w, &answer, 1);
	options = ask(&w);
	options.total_ms = 50;
	cr_assert_eq(http_start(c.http, &options, &whole, &c, &c.request), ERR_OK);
	cr_assert(fixture_turn_until(c.loop, &c.is_enough));
	cr_assert_eq(c.outcome.end, HTTP_END_TIMEOUT);
	web_close(&w);
	close_client(&c);
	cr_assert_eq(fixture_fd_count(), before);
}

Test(http, half_a_certificate_is_refused)
{
	struct http_options options = { .certificate = "/there/cert.pem" };
	struct loop *loop = loop_create();
	struct http *http;

	cr_assert_eq(http_create(loop, &options, &http), ERR_INVALID);
	loop_destroy(loop);
}
