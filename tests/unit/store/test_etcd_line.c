/* Answers of etcd's gateway: as version 3.4.23 gives them, and everything that is none. */
#include "store/etcd_line.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/alloc.h"

#define HEADER(revision) "\"header\":{\"cluster_id\":\"14841639068965178418\",\"member_id\":\"10276657743932975437\",\"revision\":\"" revision "\",\"raft_term\":\"2\"}"
#define KV "{\"key\":\"a2V5\",\"create_revision\":\"2\",\"mod_revision\":\"7\",\"version\":\"1\",\"value\":\"dmFsdWU=\"}"

static const char page_text[] = "{" HEADER("9") ",\"kvs\":[" KV ",{\"key\":\"eA==\",\"mod_revision\":\"3\"}],\"more\":true,\"count\":\"5\"}";
static const char events_text[] =
	"{\"result\":{" HEADER("9") ",\"watch_id\":\"2\",\"events\":[{\"kv\":" KV "},{\"type\":\"DELETE\",\"kv\":{\"key\":\"eA==\",\"mod_revision\":\"9\"}}]}}";

static enum err watch(const char *line, size_t len, struct etcd_watch *out_watch, struct arena *arena)
{
	arena_init(arena, 0);
	return etcd_watch_read((struct text){ line, len }, arena, out_watch);
}

Test(etcd_line, a_page_is_read)
{
	struct etcd_page page;
	struct arena arena;

	arena_init(&arena, 0);
	cr_assert_eq(etcd_page_read(text_of(page_text), &arena, &page), ERR_OK);
	cr_assert_eq(page.revision, 9);
	cr_assert(page.has_more);
	cr_assert_eq(page.count, 2);
	cr_assert(text_is(page.pairs[0].key, "key"));
	cr_assert(text_is(page.pairs[0].value, "value"));
	cr_assert_eq(page.pairs[0].revision, 7);
	cr_assert_eq(page.pairs[1].value.len, 0);
	cr_assert_eq(etcd_page_read(text_of("{" HEADER("9") "}"), &arena, &page), ERR_OK);
	cr_assert_eq(page.count, 0);
	cr_assert_not(page.has_more);
	arena_finish(&arena);
}

Test(etcd_line, events_are_read_with_what_became_of_each_key)
{
	struct etcd_watch w;
	struct arena arena;

	cr_assert_eq(watch(events_text, strlen(events_text), &w, &arena), ERR_OK);
	cr_assert_eq(w.kind, ETCD_WATCH_EVENTS);
	cr_assert_eq(w.watch_id, 2);
	cr_assert_eq(w.revision, 9);
	cr_assert_eq(w.count, 2);
	cr_assert_not(w.pairs[0].is_deleted);
	cr_assert(w.pairs[1].is_deleted);
	cr_assert_eq(w.pairs[1].revision, 9);
	arena_finish(&arena);
}

Test(etcd_line, whatever_is_no_result_is_a_refusal)
{
	static const struct {
		const char *line;
		enum etcd_watch_kind kind;
		enum etcd_refusal refusal;
	} rows[] = {
		{ "{\"result\":{" HEADER("9") ",\"watch_id\":\"1\",\"created\":true}}", ETCD_WATCH_CREATED, ETCD_REFUSAL_OTHER },
		{ "{\"result\":{" HEADER("9") "}}", ETCD_WATCH_EVENTS, ETCD_REFUSAL_OTHER },
		{ "{\"result\":{" HEADER("9") ",\"created\":true,\"canceled\":true}}", ETCD_WATCH_CANCELED, ETCD_REFUSAL_OTHER },
		{ "{\"result\":{" HEADER("9") ",\"canceled\":true,\"compact_revision\":\"5\"}}", ETCD_WATCH_CANCELED, ETCD_REFUSAL_COMPACTED },
		{ "{\"result\":{" HEADER("9") ",\"canceled\":true,\"cancel_reason\":\"etcdserver: permission denied\"}}", ETCD_WATCH_CANCELED,
		  ETCD_REFUSAL_TOKEN },
		{ "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no leader\",\"http_status\":\"Service Unavailable\"}}",
		  ETCD_WATCH_REFUSED, ETCD_REFUSAL_NO_LEADER },
		{ "{\"code\":14,\"message\":\"etcdserver: no leader\",\"details\":[]}", ETCD_WATCH_REFUSED, ETCD_REFUSAL_NO_LEADER },
		{ "{\"error\":\"etcdserver: invalid auth token\",\"message\":\"etcdserver: invalid auth token\",\"code\":16}", ETCD_WATCH_REFUSED,
		  ETCD_REFUSAL_TOKEN },
		{ "{}", ETCD_WATCH_REFUSED, ETCD_REFUSAL_OTHER },
		{ "[]", ETCD_WATCH_REFUSED, ETCD_REFUSAL_OTHER },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct etcd_watch w;
		struct arena arena;

		cr_assert_eq(watch(rows[i].line, strlen(rows[i].line), &w, &arena), ERR_OK, "%s", rows[i].line);
		cr_assert_eq(w.kind, rows[i].kind, "%s", rows[i].line);
		cr_assert_eq(w.refusal, rows[i].refusal, "%s", rows[i].line);
		arena_finish(&arena);
	}
}

Test(etcd_line, every_prefix_of_a_good_line_is_none)
{
	for (size_t len = 0; len < strlen(events_text); len++) {
		struct etcd_watch w;
		struct etcd_page page;
		struct arena arena;

		cr_assert_eq(watch(events_text, len, &w, &arena), ERR_INVALID, "%zu", len);
		if (len < strlen(page_text))
			cr_assert_eq(etcd_page_read((struct text){ page_text, len }, &arena, &page), ERR_INVALID, "%zu", len);
		arena_finish(&arena);
	}
}

Test(etcd_line, what_is_read_must_be_of_its_kind)
{
	static const char *const bad[] = {
		"{\"result\":{}}", "{\"result\":{\"header\":{\"revision\":9}}}", "{\"result\":{\"header\":{\"revision\":\"-9\"}}}",
		"{\"result\":{\"header\":{\"revision\":\"99999999999999999999\"}}}",
		"{\"result\":{" HEADER("9") ",\"events\":{}}}", "{\"result\":{" HEADER("9") ",\"events\":[{}]}}",
		"{\"result\":{" HEADER("9") ",\"events\":[{\"type\":\"MOVE\",\"kv\":" KV "}]}}",
		"{\"result\":{" HEADER("9") ",\"events\":[{\"kv\":{\"key\":\"a2V\"}}]}}",
		"{\"result\":{" HEADER("9") ",\"canceled\":\"true\"}}", "{\"result\":{" HEADER("9") ",\"watch_id\":2}}",
		"{\"result\":{" HEADER("9") "},\"result\":{" HEADER("9") "}}",
	};
	struct etcd_page page;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct etcd_watch w;
		struct arena arena;

		cr_assert_eq(watch(bad[i], strlen(bad[i]), &w, &arena), ERR_INVALID, "%s", bad[i]);
		cr_assert_eq(etcd_page_read(text_of("{\"kvs\":[]}"), &arena, &page), ERR_INVALID);
		cr_assert_eq(etcd_page_read(text_of("{" HEADER("9") ",\"more\":true}"), &arena, &page), ERR_INVALID, "it would never end");
		arena_finish(&arena);
	}
}

Test(etcd_line, a_token_is_plain_text)
{
	const char *token;
	struct arena arena;

	arena_init(&arena, 0);
	cr_assert_eq(etcd_token_read(text_of("{" HEADER("1") ",\"token\":\"abc.12\"}"), &arena, &token), ERR_OK);
	cr_assert_str_eq(token, "abc.12");
	cr_assert_eq(etcd_token_read(text_of("{\"token\":\"a\\r\\nb\"}"), &arena, &token), ERR_INVALID);
	cr_assert_eq(etcd_token_read(text_of("{}"), &arena, &token), ERR_INVALID);
	arena_finish(&arena);
	cr_assert_eq(etcd_refusal_read(401, text_of("x")), ETCD_REFUSAL_TOKEN);
	cr_assert_eq(etcd_refusal_read(400, text_of("mvcc: required revision has been compacted")), ETCD_REFUSAL_COMPACTED);
}

Test(etcd_line, without_memory_nothing_is_taken_for_read)
{
	for (uint64_t nth = 1;; nth++) {
		struct etcd_watch w;
		struct arena arena;
		bool has_failed;
		enum err e;

		alloc_fail_at(nth);
		e = watch(events_text, strlen(events_text), &w, &arena);
		has_failed = alloc_count() >= nth;
		alloc_fail_at(0);
		cr_assert_eq(e, has_failed ? ERR_NO_MEMORY : ERR_OK, "allocation %llu", (unsigned long long)nth);
		arena_finish(&arena);
		if (!has_failed)
			break;
	}
}
