/* Chained buckets over the caller's nodes; the load never passes one node per bucket. Neither hashes nor owns. */
#include "base/htab.h"

#include "base/alloc.h"

#define FIRST_BUCKETS 16

void htab_init(struct htab *t)
{
	*t = (struct htab){ 0 };
}

void htab_finish(struct htab *t)
{
	alloc_free(t->buckets);
	*t = (struct htab){ 0 };
}

static void push(struct htab_node **buckets, size_t bucket_count, struct htab_node *node)
{
	struct htab_node **bucket = &buckets[node->hash & (bucket_count - 1)];

	node->next = *bucket;
	*bucket = node;
}

static enum err grow(struct htab *t)
{
	size_t bucket_count = t->bucket_count == 0 ? FIRST_BUCKETS : t->bucket_count * 2;
	struct htab_node **buckets = alloc_array(bucket_count, sizeof(*buckets));

	if (buckets == NULL)
		return ERR_NO_MEMORY;
	for (size_t i = 0; i < t->bucket_count; i++) {
		struct htab_node *node = t->buckets[i];

		while (node != NULL) {
			struct htab_node *next = node->next;

			push(buckets, bucket_count, node);
			node = next;
		}
	}
	alloc_free(t->buckets);
	t->buckets = buckets;
	t->bucket_count = bucket_count;
	return ERR_OK;
}

enum err htab_insert(struct htab *t, struct htab_node *node, uint64_t hash)
{
	if (t->count >= t->bucket_count && grow(t) != ERR_OK)
		return ERR_NO_MEMORY;
	node->hash = hash;
	push(t->buckets, t->bucket_count, node);
	t->count++;
	return ERR_OK;
}

struct htab_node *htab_find(const struct htab *t, uint64_t hash, htab_same_fn *same,
			    const void *key)
{
	struct htab_node *node;

	if (t->bucket_count == 0)
		return NULL;
	for (node = t->buckets[hash & (t->bucket_count - 1)]; node != NULL; node = node->next) {
		if (node->hash == hash && same(node, key))
			return node;
	}
	return NULL;
}

void htab_remove(struct htab *t, struct htab_node *node)
{
	struct htab_node **at;

	if (t->bucket_count == 0)
		return;
	for (at = &t->buckets[node->hash & (t->bucket_count - 1)]; *at != NULL; at = &(*at)->next) {
		if (*at == node) {
			*at = node->next;
			node->next = NULL;
			t->count--;
			return;
		}
	}
}

struct htab_node *htab_next(const struct htab *t, const struct htab_node *node)
{
	size_t i = 0;

	if (node != NULL) {
		if (node->next != NULL)
			return node->next;
		i = (node->hash & (t->bucket_count - 1)) + 1;
	}
	for (; i < t->bucket_count; i++) {
		if (t->buckets[i] != NULL)
			return t->buckets[i];
	}
	return NULL;
}
