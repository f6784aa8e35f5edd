/* Reports: when one is posted, and what becomes of one that is not taken. */
#include "delivery/report.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "base/crypto.h"
#include "fixture.h"
#include "web.h"

#define TAKEN { "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", 0, false }

static void turn(struct loop *loop, const struct report *r, uint64_t sent, uint64_t failed)
{
	for (unsigned i = 0; i < 2000 && (report_sent(r) < sent || report_failed(r) < failed); i++)
		loop_turn(loop, 5);
	cr_assert_eq(report_sent(r), sent);
	cr_assert_eq(report_failed(r), failed);
}

Test(report, what_is_new_is_posted_once_and_what_was_not_taken_again)
{
	static struct web w;
	const struct web_answer answers[] = {
		TAKEN, TAKEN, { "HTTP/1.1 500 Oops\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 0, false }, TAKEN
	};
	struct report_options options = { .urls = w.url, .proxy = "px-1" };
	struct loop *loop = loop_create();
	struct report *r;

	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(crypto_init(), ERR_OK);
	web_open(&w, answers, ARRAY_LEN(answers));
	cr_assert_eq(report_open(loop, &options, &r), ERR_OK);
	report_say(r, text_of("{\"a\":1}"));
	report_say(r, text_of("{\"a\":2}")); /* one is under way */
	turn(loop, r, 1, 0);
	report_say(r, text_of("{\"a\":1}")); /* nothing new */
	loop_turn(loop, 20);
	cr_assert_eq(w.asked, 1);
	report_say(r, text_of("{\"a\":2}"));
	turn(loop, r, 2, 0);
	report_say(r, text_of("{\"a\":3}"));
	turn(loop, r, 2, 1);
	for (unsigned i = 0; i < 200 && report_sent(r) < 3; i++) {
		report_say(r, text_of("{\"a\":3}"));
		loop_turn(loop, 10);
	}
	turn(loop, r, 3, 1);
	report_close(r);
	web_close(&w);
	loop_destroy(loop);
	cr_assert_eq(strncmp(w.requests[0], "POST /v1/proxies/px-1/status HTTP/1.1\r\n", 39), 0);
	cr_assert_not_null(strstr(w.requests[1], "\r\n\r\n{\"a\":2}"));
	cr_assert_not_null(strstr(w.requests[3], "\r\n\r\n{\"a\":3}"));
}

Test(report, names_that_are_no_part_of_a_path_are_refused)
{
	static const char *const bad[] = { "", "a/b", "..", "a b", "a?b" };
	struct loop *loop = loop_create();
	struct report *r;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct report_options options = { .urls = "https://h", .proxy = bad[i] };

		cr_assert_eq(report_open(loop, &options, &r), ERR_INVALID, "%s", bad[i]);
	}
	loop_destroy(loop);
}

Test(report, strings_cannot_leave_their_quotes)
{
	char text[64];
	struct sink out = sink_over(text, sizeof(text));

	report_string(&out, "a\"b\\c\n\xc3\xa4");
	sink_u8(&out, 0);
	cr_assert_str_eq(text, "\"a\\\"b\\\\c???\"");
}
