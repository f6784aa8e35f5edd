/* The hash table against a plain array, with hashes chosen to collide. */
#include "base/htab.h"

#include <criterion/criterion.h>

#include "base/alloc.h"

#define ITEM_COUNT 500

struct item {
	struct htab_node node;
	unsigned key;
	bool in_table;
	bool seen;
};

static bool item_has_key(const struct htab_node *node, const void *key)
{
	return CONTAINER_OF(node, const struct item, node)->key == *(const unsigned *)key;
}

/* Few distinct values: long chains of equal hashes and of equal buckets. */
static uint64_t weak_hash(unsigned key)
{
	return (uint64_t)(key % 7) << 32 | key % 3;
}

static void expect_agreement(const struct htab *t, const struct item *items)
{
	size_t count = 0;

	for (unsigned i = 0; i < ITEM_COUNT; i++) {
		struct htab_node *found = htab_find(t, weak_hash(i), item_has_key, &i);

		cr_assert_eq(found != NULL, items[i].in_table, "key %u", i);
		if (found != NULL)
			cr_assert_eq(found, &items[i].node);
		count += items[i].in_table;
	}
	cr_assert_eq(t->count, count);
}

Test(htab, finds_what_is_in_it_and_nothing_else)
{
	static struct item items[ITEM_COUNT];
	struct htab t;

	htab_init(&t);
	expect_agreement(&t, items);
	htab_remove(&t, &items[0].node);
	for (unsigned i = 0; i < ITEM_COUNT; i++) {
		items[i].key = i;
		items[i].in_table = true;
		cr_assert_eq(htab_insert(&t, &items[i].node, weak_hash(i)), ERR_OK);
	}
	expect_agreement(&t, items);
	for (unsigned i = 0; i < ITEM_COUNT; i += 3) {
		htab_remove(&t, &items[i].node);
		items[i].in_table = false;
	}
	htab_remove(&t, &items[0].node);
	expect_agreement(&t, items);
	htab_finish(&t);
	cr_expect_eq(t.count, 0);
}

Test(htab, a_walk_sees_every_node_once_and_may_remove_as_it_goes)
{
	static struct item items[ITEM_COUNT];
	struct htab t;
	struct htab_node *node, *next;
	size_t seen = 0;

	htab_init(&t);
	cr_expect_null(htab_next(&t, NULL));
	for (unsigned i = 0; i < ITEM_COUNT; i++)
		cr_assert_eq(htab_insert(&t, &items[i].node, i * 0x9e3779b97f4a7c15ULL), ERR_OK);
	for (node = htab_next(&t, NULL); node != NULL; node = next) {
		struct item *item = CONTAINER_OF(node, struct item, node);

		next = htab_next(&t, node);
		cr_expect(!item->seen);
		item->seen = true;
		seen++;
		htab_remove(&t, node);
	}
	cr_expect_eq(seen, ITEM_COUNT);
	cr_expect_eq(t.count, 0);
	htab_finish(&t);
}

Test(htab, an_insert_without_memory_inserts_nothing)
{
	static struct item items[ITEM_COUNT];
	struct htab t;
	unsigned key, inserted = 0;

	htab_init(&t);
	for (key = 0; key < ITEM_COUNT; key++) {
		items[key].key = key;
		alloc_fail_at(1);
		if (htab_insert(&t, &items[key].node, weak_hash(key)) == ERR_OK) {
			items[key].in_table = true;
			inserted++;
			continue;
		}
		expect_agreement(&t, items);
		items[key].in_table = true;
		cr_assert_eq(htab_insert(&t, &items[key].node, weak_hash(key)), ERR_OK);
	}
	alloc_fail_at(0);
	cr_expect(inserted > 0 && inserted < ITEM_COUNT);
	expect_agreement(&t, items);
	htab_finish(&t);
}

static bool never_asked(const struct htab_node *node, const void *key)
{
	cr_expect(false, "asked for an unequal hash");
	return true;
}

Test(htab, the_caller_compares_only_nodes_of_the_same_hash)
{
	struct item item = { .key = 1 };
	struct htab t;

	htab_init(&t);
	cr_assert_eq(htab_insert(&t, &item.node, 16), ERR_OK);
	/* The same bucket for every small table, another hash. */
	cr_expect_null(htab_find(&t, 16 + 4096, never_asked, NULL));
	htab_finish(&t);
}
