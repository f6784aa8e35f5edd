/* etcd as scripted servers play it; the real one is in tests/system. */
#include "store/driver_etcd.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "base/crypto.h"
#include "fixture.h"
#include "heard.h"
#include "store/etcd_request.h"
#include "web.h"

#define HEADER(revision) "\"header\":{\"revision\":\"" revision "\"}"
#define KV(key, value, revision) "{\"key\":\"" key "\",\"mod_revision\":\"" revision "\",\"value\":\"" value "\"}"
#define KEYSET KV("L2VncmVzcy92MS9rZXlzZXQ=", "Sw==", "3")
#define LEASE_A KV("L2VncmVzcy92MS9jL2MtMDE2MS9sL2E=", "QQ==", "4")
#define MANIFEST KV("L2VncmVzcy92MS9jL2MtMDE2MS9t", "TQ==", "4")
#define FOREIGN KV("L2VncmVzcy92MS9jL2MtMDE2Mi9sL3o=", "Wg==", "6")
#define BEAT(revision) KV("L2VncmVzcy92MS9iZWF0LzMx", "Qg==", revision)
#define PAGE(kvs) WEB_OK("{" HEADER("5") ",\"kvs\":[" kvs "]}")
#define MORE(kvs) WEB_OK("{" HEADER("5") ",\"kvs\":[" kvs "],\"more\":true}")
#define LIST { PAGE(KEYSET), 0, false }, { PAGE(LEASE_A "," MANIFEST), 0, false }, { PAGE(BEAT("5")), 0, false }
#define CREATED(id, revision) "{\"result\":{" HEADER(revision) ",\"watch_id\":\"" id "\",\"created\":true}}\n"
#define ALL_CREATED CREATED("1", "5") CREATED("2", "5") CREATED("3", "5")
#define EVENTS(id, revision, events) "{\"result\":{" HEADER(revision) ",\"watch_id\":\"" id "\",\"events\":[" events "]}}\n"
#define DELETE_A(revision) "{\"type\":\"DELETE\",\"kv\":{\"key\":\"L2VncmVzcy92MS9jL2MtMDE2MS9sL2E=\",\"mod_revision\":\"" revision "\"}}"
#define LISTED "begin put(keyset=K) put(l/a=A) put(m=M) mark(B) end settled "

static void play(struct web *w, struct heard *heard, const struct web_answer *answers, size_t count, const char *user)
{
	struct loop *loop = loop_create();
	struct driver_etcd_options options = { .cell = "c-0161", .user = user, .password = "secret" };
	struct frames_source *source;

	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(crypto_init(), ERR_OK);
	web_open(w, answers, count);
	options.members = w->url + strlen("http://");
	cr_assert_eq(driver_etcd_open(loop, &options, &source), ERR_OK);
	heard->source = source;
	cr_assert_eq(frames_start(source, &heard_events, heard), ERR_OK);
	cr_assert(fixture_turn_until(loop, &heard->is_enough), "only: %s", heard->story);
	frames_close(source);
	web_close(w);
	loop_destroy(loop);
}

#define PLAY_AS(who, heard, ...)                               \
	static struct web web;                                 \
	const struct web_answer answers[] = { __VA_ARGS__ };   \
	play(&web, &(heard), answers, ARRAY_LEN(answers), who)
#define PLAY(heard, ...) PLAY_AS(NULL, heard, __VA_ARGS__)

static bool asked(const struct web *w, size_t nth, const char *what)
{
	return strstr(w->requests[nth], what) != NULL;
}

Test(driver_etcd, everything_is_listed_at_one_revision_and_watched_from_the_next)
{
	struct heard h = { .until = "mark(B) settled mark(B) settled" };
	PLAY(h, LIST, { WEB_OK(ALL_CREATED EVENTS("2", "6", DELETE_A("6") ",{\"kv\":" MANIFEST "}") EVENTS("3", "7", "{\"kv\":" BEAT("7") "}")
					  EVENTS("3", "8", "{\"kv\":" BEAT("8") "}")), 5, true });

	cr_assert_str_eq(h.story, LISTED "del(l/a) put(m=M) settled mark(B) settled mark(B) settled ");
	for (size_t i = 0; i < 4; i++)
		cr_assert(asked(&web, i, "\r\nGrpc-Metadata-hasleader: true\r\n"));
	cr_assert(asked(&web, 0, "POST /v3/kv/range HTTP/1.1"));
	cr_assert(asked(&web, 0, "\"revision\":\"0\""), "the first page is linearizable");
	cr_assert(asked(&web, 1, "{\"key\":\"L2VncmVzcy92MS9jL2MtMDE2MS8=\",\"range_end\":\"L2VncmVzcy92MS9jL2MtMDE2MTA=\",\"limit\":\"500\",\"revision\":\"5\"}"));
	cr_assert(asked(&web, 2, "\"revision\":\"5\""));
	cr_assert(asked(&web, 3, "POST /v3/watch HTTP/1.1"));
	cr_assert(asked(&web, 3, "\"start_revision\":\"6\",\"watch_id\":\"3\""));
}

Test(driver_etcd, long_lists_come_in_pages)
{
	struct heard h = { .until = LISTED };
	PLAY(h, { PAGE(KEYSET), 0, false }, { MORE(LEASE_A), 0, false }, { PAGE(MANIFEST), 0, false }, { PAGE(BEAT("5")), 0, false },
	     { WEB_OK(ALL_CREATED), 0, true });

	cr_assert(asked(&web, 2, "{\"key\":\"L2VncmVzcy92MS9jL2MtMDE2MS9sL2EA\","));
	cr_assert(asked(&web, 2, "\"revision\":\"5\""));
}

Test(driver_etcd, half_a_list_is_begun_again)
{
	struct heard h = { .until = "end " };
	PLAY(h, { PAGE(KEYSET), 0, false }, { NULL, 0, false }, LIST, { WEB_OK(ALL_CREATED), 0, true });

	cr_assert_str_eq(h.story, "begin put(keyset=K) break(closed) " LISTED);
	cr_assert(asked(&web, 2, "\"revision\":\"0\""));
}

Test(driver_etcd, keys_outside_its_ranges_are_not_told)
{
	struct heard h = { .until = "mark(B) settled " };
	PLAY(h, LIST, { WEB_OK(ALL_CREATED EVENTS("2", "6", "{\"kv\":" FOREIGN "}") EVENTS("3", "7", "{\"kv\":" BEAT("7") "}")), 0, true });

	cr_assert_null(strstr(h.story, "Z"));
}

Test(driver_etcd, a_watch_that_is_lost_goes_on_behind_what_was_told)
{
	struct heard h = { .until = "break(closed) del(l/a) settled " };
	PLAY(h, LIST, { WEB_OK(ALL_CREATED EVENTS("3", "9", "{\"kv\":" BEAT("7") "}")), 0, false },
	     { WEB_OK(CREATED("1", "9") CREATED("2", "9") CREATED("3", "9") EVENTS("2", "9", DELETE_A("9"))), 0, true });

	/* Behind the beat of revision 7, though the store was at 9; the others from 6. */
	cr_assert(asked(&web, 4, "\"start_revision\":\"6\",\"watch_id\":\"2\""));
	cr_assert(asked(&web, 4, "\"start_revision\":\"8\",\"watch_id\":\"3\""));
}

Test(driver_etcd, the_ways_to_freeze_in_silence_are_heard)
{
	static const struct {
		const char *line, *word;
	} rows[] = {
		{ CREATED("1", "5") "{\"result\":{" HEADER("9") ",\"watch_id\":\"2\",\"created\":true,\"canceled\":true,\"compact_revision\":\"8\"}}\n",
		  "break(compacted) " LISTED },
		{ CREATED("1", "5") CREATED("2", "3"), "break(rollback) " LISTED },
		{ ALL_CREATED "{\"result\":{" HEADER("9") ",\"watch_id\":\"2\",\"canceled\":true}}\n", "break(canceled) " LISTED },
		{ ALL_CREATED EVENTS("2", "4", ""), "break(rollback) " LISTED },
		{ ALL_CREATED "{\"what\":1}\n", "break(error) " LISTED },
		{ ALL_CREATED "what\n", "break(malformed) " LISTED },
		{ EVENTS("2", "6", DELETE_A("6")), "break(malformed) " LISTED },
		{ CREATED("9", "5"), "break(malformed) " LISTED },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char script[2048] = WEB_OK("");
		struct heard h = { .until = rows[i].word };
		strcat(script, rows[i].line);
		PLAY(h, LIST, { script, 0, true }, LIST, { WEB_OK(ALL_CREATED), 0, true });
	}
}

Test(driver_etcd, a_member_without_a_leader_is_left_and_the_watch_goes_on)
{
	struct heard h = { .until = "break(no_leader) mark(B)" };
	PLAY(h, LIST, { WEB_OK(ALL_CREATED "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no leader\"}}\n"), 0, true },
	     { WEB_OK(ALL_CREATED EVENTS("3", "7", "{\"kv\":" BEAT("7") "}")), 0, true });

	cr_assert_eq(strncmp(h.story, LISTED "break(no_leader) mark(B)", strlen(LISTED) + 24), 0, "%s", h.story);
}

Test(driver_etcd, a_token_is_asked_for_sent_and_asked_for_again)
{
	struct heard h = { .until = LISTED "mark(B) settled " };
	PLAY_AS("reader", h, { WEB_OK("{" HEADER("1") ",\"token\":\"tok.1\"}"), 0, false },
		{ "HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\n{\"error\":\"etcdserver: invalid auth token\"}", 0, false },
		{ WEB_OK("{" HEADER("1") ",\"token\":\"tok.2\"}"), 0, false }, LIST,
		{ WEB_OK(ALL_CREATED EVENTS("3", "7", "{\"kv\":" BEAT("7") "}")), 0, true });

	cr_assert(asked(&web, 0, "POST /v3/auth/authenticate HTTP/1.1"));
	cr_assert(asked(&web, 0, "{\"name\":\"reader\",\"password\":\"secret\"}"));
	cr_assert(asked(&web, 1, "\r\nAuthorization: tok.1\r\n"));
	cr_assert(asked(&web, 2, "POST /v3/auth/authenticate HTTP/1.1"));
	cr_assert(asked(&web, 3, "\r\nAuthorization: tok.2\r\n"));
	cr_assert(asked(&web, 6, "\r\nAuthorization: tok.2\r\n"));
}

Test(driver_etcd, the_listener_may_ask_to_list_again)
{
	static const char *const moments[] = { "end ", "settled", "settled mark(B)" };

	for (size_t i = 0; i < ARRAY_LEN(moments); i++) {
		struct heard h = { .relist_at = moments[i], .until = "break(relist) " LISTED };

		if (i < 2) {
			PLAY(h, LIST, LIST, { WEB_OK(ALL_CREATED), 0, true });
		} else {
			PLAY(h, LIST, { WEB_OK(ALL_CREATED EVENTS("3", "7", "{\"kv\":" BEAT("7") "}")), 0, true }, LIST,
			     { WEB_OK(ALL_CREATED), 0, true });
		}
	}
}

Test(driver_etcd, what_cannot_be_used_is_refused_at_once)
{
	static const struct driver_etcd_options bad[] = {
		{ .members = "h:1", .cell = "" },
		{ .members = "h:1", .cell = "a/b" },
		{ .members = "u@h:1", .cell = "c" },
		{ .members = "h:1", .cell = "c", .user = "u" },
		{ .members = "h:1", .cell = "c", .user = "u", .password = "a\"b" },
		{ .members = "h:1", .cell = "c", .tls = { .certificate = "/c" } },
	};
	struct loop *loop = loop_create();
	struct frames_source *source;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		cr_assert_eq(driver_etcd_open(loop, &bad[i], &source), ERR_INVALID, "%zu", i);
	loop_destroy(loop);
}
