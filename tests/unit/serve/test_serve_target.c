/* Targets, preferences and keys of requests: what is ours is read, and nothing that could mean two things. */
#include "serve/serve_target.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(serve_target, what_proxies_ask_for_is_read)
{
	static const struct {
		const char *text;
		enum serve_route route;
		const char *name, *cursor;
	} rows[] = {
		{ "/v1/cells/c-0161/stream", SERVE_ROUTE_STREAM, "c-0161", "" },
		{ "/v1/cells/c-0161/stream?cursor=3.1a2b.7.0", SERVE_ROUTE_STREAM, "c-0161", "3.1a2b.7.0" },
		{ "/v1/cells/a%2Eb%3ac/stream", SERVE_ROUTE_STREAM, "a.b:c", "" },
		{ "/v1/proxies/px-1/status", SERVE_ROUTE_STATUS, "px-1", "" },
		{ "/v1/decisions", SERVE_ROUTE_DECISIONS, "", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct serve_target target;

		cr_assert_eq(serve_target_read(text_of(rows[i].text), &target), SERVE_TARGET_GOOD, "%s", rows[i].text);
		cr_assert_eq(target.route, rows[i].route);
		cr_assert_str_eq(target.name, rows[i].name);
		cr_assert_str_eq(target.cursor, rows[i].cursor);
		/* Nothing shorter is the same. */
		for (size_t len = 0; len < strlen(rows[i].text); len++) {
			enum serve_target_fault fault = serve_target_read((struct text){ rows[i].text, len }, &target);

			cr_assert(fault != SERVE_TARGET_GOOD || strlen(target.cursor) < strlen(rows[i].cursor), "%zu of %s", len, rows[i].text);
		}
	}
}

Test(serve_target, what_is_not_ours_is_told_from_what_is_malformed)
{
	static const struct {
		const char *text;
		enum serve_target_fault fault;
	} rows[] = {
		{ "", SERVE_TARGET_UNKNOWN }, { "/", SERVE_TARGET_UNKNOWN }, { "/v1/cells", SERVE_TARGET_UNKNOWN },
		{ "/v1/cells/", SERVE_TARGET_UNKNOWN }, { "/v1/cells/a", SERVE_TARGET_UNKNOWN }, { "/v1/cells/a/streams", SERVE_TARGET_UNKNOWN },
		{ "/v1/cells/a/stream/", SERVE_TARGET_UNKNOWN }, { "/v1/cells/a/b/stream", SERVE_TARGET_UNKNOWN },
		{ "/v1/decisions/", SERVE_TARGET_UNKNOWN }, { "/V1/decisions", SERVE_TARGET_UNKNOWN }, { "//v1/decisions", SERVE_TARGET_UNKNOWN },
		{ "/v1/cells//stream", SERVE_TARGET_MALFORMED }, { "/v1/cells/../stream", SERVE_TARGET_MALFORMED },
		{ "/v1/cells/%2e%2e/stream", SERVE_TARGET_MALFORMED }, { "/v1/cells/a%2fb/stream", SERVE_TARGET_MALFORMED },
		{ "/v1/cells/a%00/stream", SERVE_TARGET_MALFORMED }, { "/v1/cells/a%/stream", SERVE_TARGET_MALFORMED },
		{ "/v1/cells/a%4/stream", SERVE_TARGET_MALFORMED }, { "/v1/cells/a%zz/stream", SERVE_TARGET_MALFORMED },
		{ "/v1/cells/a+b/stream", SERVE_TARGET_MALFORMED }, { "/v1/cells/%2541/stream", SERVE_TARGET_MALFORMED },
		{ "/v1/cells/12345678901234567890123456789012345678901234567890123456789012345/stream", SERVE_TARGET_MALFORMED },
		{ "/v1/cells/a/stream?", SERVE_TARGET_MALFORMED }, { "/v1/cells/a/stream?cursor=", SERVE_TARGET_MALFORMED },
		{ "/v1/cells/a/stream?cursor=a&b", SERVE_TARGET_MALFORMED }, { "/v1/cells/a/stream?cursor=a%20", SERVE_TARGET_MALFORMED },
		{ "/v1/cells/a/stream?x=1", SERVE_TARGET_MALFORMED }, { "/v1/cells/a/stream?cursor=a?b", SERVE_TARGET_MALFORMED },
		{ "/v1/cells/a/stream?cursor=12345678901234567890123456789012345678901234567890123456789012345", SERVE_TARGET_MALFORMED },
		{ "/v1/decisions?x", SERVE_TARGET_MALFORMED }, { "/v1/proxies/a/status?cursor=a", SERVE_TARGET_MALFORMED },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct serve_target target;

		cr_assert_eq(serve_target_read(text_of(rows[i].text), &target), rows[i].fault, "%s", rows[i].text);
	}
}

Test(serve_target, a_wait_is_found_among_preferences_and_bounded)
{
	unsigned wait_s = 99;

	cr_assert(serve_target_wait(text_of("wait=1"), &wait_s));
	cr_assert_eq(wait_s, 1);
	cr_assert(serve_target_wait(text_of("respond-async, \twait=0 ,x"), &wait_s));
	cr_assert_eq(wait_s, 0);
	cr_assert(serve_target_wait(text_of("wait=999999"), &wait_s));
	cr_assert_eq(wait_s, SERVE_TARGET_WAIT_MAX_S);
	cr_assert_not(serve_target_wait(text_of(""), &wait_s));
	cr_assert_not(serve_target_wait(text_of("respond-async"), &wait_s));
	cr_assert_not(serve_target_wait(text_of("wait="), &wait_s));
	cr_assert_not(serve_target_wait(text_of("wait=-1"), &wait_s));
	cr_assert_not(serve_target_wait(text_of("wait=99999999999999999999"), &wait_s));
}

Test(serve_target, a_key_is_plain_with_quotes_or_without)
{
	char key[SERVE_TARGET_KEY_MAX + 1], longest[SERVE_TARGET_KEY_MAX + 2];

	cr_assert(serve_target_key(text_of("px-1/0123abc/7"), key));
	cr_assert_str_eq(key, "px-1/0123abc/7");
	cr_assert(serve_target_key(text_of("\"a:b\""), key));
	cr_assert_str_eq(key, "a:b");
	cr_assert_not(serve_target_key(text_of(""), key));
	cr_assert_not(serve_target_key(text_of("\"\""), key));
	cr_assert_not(serve_target_key(text_of("\""), key));
	cr_assert_not(serve_target_key(text_of("a b"), key));
	cr_assert_not(serve_target_key((struct text){ "a\0b", 3 }, key));
	memset(longest, 'k', sizeof(longest));
	cr_assert(serve_target_key((struct text){ longest, SERVE_TARGET_KEY_MAX }, key));
	cr_assert_not(serve_target_key((struct text){ longest, SERVE_TARGET_KEY_MAX + 1 }, key));
}
