/*
 * Answers of etcd's gateway, each as a watch line, a page, a token and a transaction. What is taken as events names keys; what is a list that goes on has
 * a last key to go on from; a token can stand in a header.
 */
#include "require.h"
#include "store/etcd_line.h"

static void check_pairs(const struct etcd_pair *pairs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		REQUIRE(pairs[i].key.len > 0 && pairs[i].key.at != NULL && pairs[i].value.at != NULL);
		REQUIRE(pairs[i].revision <= INT64_MAX);
	}
}

static void check_watch(struct text line, struct arena *arena)
{
	struct etcd_watch watch;

	if (etcd_watch_read(line, arena, &watch) != ERR_OK)
		return;
	REQUIRE(watch.kind == ETCD_WATCH_EVENTS || watch.count == 0);
	REQUIRE(watch.count <= ETCD_EVENTS_MAX);
	check_pairs(watch.pairs, watch.count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = exact_copy(data, size);
	struct text text = { (const char *)copy, size };
	struct etcd_page page;
	const char *token;
	uint64_t revision;
	bool is_done;
	struct arena arena;

	arena_init(&arena, 0);
	check_watch(text, &arena);
	if (etcd_page_read(text, &arena, &page) == ERR_OK) {
		REQUIRE(page.revision > 0 && page.count <= ETCD_PAGE_KEYS_MAX && (!page.has_more || page.count > 0));
		check_pairs(page.pairs, page.count);
	}
	if (etcd_token_read(text, &arena, &token) == ERR_OK)
		REQUIRE(token[0] != '\0' && strpbrk(token, " \r\n") == NULL);
	if (etcd_txn_read(text, &arena, &is_done, &revision) == ERR_OK)
		REQUIRE(revision > 0 && revision <= INT64_MAX);
	REQUIRE(etcd_refusal_read(400, text) <= ETCD_REFUSAL_FUTURE);
	arena_finish(&arena);
	free(copy);
	return 0;
}
