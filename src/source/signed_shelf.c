/*
 * The documents of a signed set, as they came. Promises the bounds of signed_set.h in number and bytes, and that what there is to do is found
 * without looking at every document. Called by the other files of signed_set.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "source/signed_set_internal.h"

#define INSERT_MAX 8 /* so many new ones find their places one by one */

enum err signed_shelf_init(struct signed_shelf *s)
{
	*s = (struct signed_shelf){ .snapshot = 1 };
	htab_init(&s->leases);
	htab_init(&s->rulesets);
	list_init(&s->pending);
	list_init(&s->faulty);
	list_init(&s->dirty);
	list_init(&s->less);
	list_init(&s->worded);
	list_init(&s->changed);
	list_init(&s->pending_rulesets);
	return crypto_random(&s->key, sizeof(s->key));
}

void signed_shelf_finish(struct signed_shelf *s)
{
	struct htab_node *node, *next;

	HTAB_FOREACH (node, next, &s->rulesets)
		signed_shelf_forget_ruleset(s, CONTAINER_OF(node, struct signed_ruleset, node));
	for (size_t i = s->ordered_count; i-- > 0;)
		signed_shelf_forget_lease(s, s->ordered[i]);
	htab_finish(&s->rulesets);
	htab_finish(&s->leases);
	alloc_free(s->ordered);
}

static bool has_id(const struct htab_node *node, const void *key)
{
	return text_is(*(const struct text *)key, CONTAINER_OF(node, const struct signed_lease, node)->id);
}

static bool has_digest(const struct htab_node *node, const void *key)
{
	return memcmp(CONTAINER_OF(node, const struct signed_ruleset, node)->sha256, key, 32) == 0;
}

struct signed_lease *signed_shelf_lease(const struct signed_shelf *s, struct text id)
{
	struct htab_node *node = htab_find(&s->leases, hash_bytes(&s->key, id.at, id.len), has_id, &id);

	return node == NULL ? NULL : CONTAINER_OF(node, struct signed_lease, node);
}

struct signed_ruleset *signed_shelf_ruleset(const struct signed_shelf *s, const uint8_t sha256[32])
{
	struct htab_node *node = htab_find(&s->rulesets, hash_bytes(&s->key, sha256, 32), has_digest, sha256);

	return node == NULL ? NULL : CONTAINER_OF(node, struct signed_ruleset, node);
}

static bool make_room(struct signed_shelf *s)
{
	size_t room = s->room == 0 ? 64 : 2 * s->room;
	struct signed_lease **larger;

	if (s->ordered_count < s->room)
		return true;
	larger = alloc_resize(s->ordered, room, sizeof(struct signed_lease *));
	if (larger == NULL)
		return false;
	s->ordered = larger;
	s->room = room;
	return true;
}

struct signed_lease *signed_shelf_add_lease(struct signed_shelf *s, struct text id)
{
	struct signed_lease *lease = signed_shelf_lease(s, id);

	if (lease != NULL)
		return lease;
	if (s->ordered_count == SIGNED_LEASES_MAX || !make_room(s) || (lease = alloc_zeroed(sizeof(*lease) + id.len + 1)) == NULL)
		return NULL;
	memcpy(lease->id, id.at, id.len);
	if (htab_insert(&s->leases, &lease->node, hash_bytes(&s->key, id.at, id.len)) != ERR_OK) {
		alloc_free(lease);
		return NULL;
	}
	/* Lists mostly come in order. */
	if (s->sorted_count == s->ordered_count &&
	    (s->ordered_count == 0 || strcmp(s->ordered[s->ordered_count - 1]->id, lease->id) < 0))
		s->sorted_count++;
	s->ordered[s->ordered_count++] = lease;
	return lease;
}

struct signed_ruleset *signed_shelf_add_ruleset(struct signed_shelf *s, const uint8_t sha256[32])
{
	struct signed_ruleset *ruleset = signed_shelf_ruleset(s, sha256);

	if (ruleset != NULL)
		return ruleset;
	if (s->rulesets.count == SIGNED_RULESETS_MAX || (ruleset = alloc_zeroed(sizeof(*ruleset))) == NULL)
		return NULL;
	memcpy(ruleset->sha256, sha256, 32);
	if (htab_insert(&s->rulesets, &ruleset->node, hash_bytes(&s->key, sha256, 32)) != ERR_OK) {
		alloc_free(ruleset);
		return NULL;
	}
	return ruleset;
}

/* Where an id is or belongs, among the first `count`, which are sorted. */
static size_t place_of(const struct signed_shelf *s, const char *id, size_t count)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(s->ordered[middle]->id, id) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int by_id(const void *left, const void *right)
{
	const struct signed_lease *const *a = left, *const *b = right;

	return strcmp((*a)->id, (*b)->id);
}

void signed_shelf_sort(struct signed_shelf *s)
{
	if (s->ordered_count - s->sorted_count > INSERT_MAX) {
		qsort(s->ordered, s->ordered_count, sizeof(struct signed_lease *), by_id);
		s->sorted_count = s->ordered_count;
	}
	for (; s->sorted_count < s->ordered_count; s->sorted_count++) {
		struct signed_lease *lease = s->ordered[s->sorted_count];
		size_t at = place_of(s, lease->id, s->sorted_count);

		memmove(s->ordered + at + 1, s->ordered + at, (s->sorted_count - at) * sizeof(struct signed_lease *));
		s->ordered[at] = lease;
	}
}

static void take_out(struct signed_shelf *s, const struct signed_lease *lease)
{
	size_t at = place_of(s, lease->id, s->sorted_count);

	if (at == s->sorted_count || s->ordered[at] != lease)
		for (at = s->sorted_count; s->ordered[at] != lease;)
			at++;
	else
		s->sorted_count--;
	s->ordered_count--;
	memmove(s->ordered + at, s->ordered + at + 1, (s->ordered_count - at) * sizeof(struct signed_lease *));
}

void signed_shelf_forget_lease(struct signed_shelf *s, struct signed_lease *lease)
{
	take_out(s, lease);
	htab_remove(&s->leases, &lease->node);
	list_remove(&s->pending, &lease->pending);
	list_remove(&s->faulty, &lease->faulty);
	list_remove(&s->dirty, &lease->dirty);
	list_remove(&s->less, &lease->less);
	list_remove(&s->worded, &lease->worded);
	list_remove(&s->changed, &lease->changed);
	alloc_free(lease->put.bytes);
	alloc_free(lease->good.bytes);
	alloc_free(lease->bad.bytes);
	alloc_free(lease->words);
	alloc_free(lease->rulesets);
	alloc_free(lease);
}

void signed_shelf_forget_ruleset(struct signed_shelf *s, struct signed_ruleset *ruleset)
{
	list_remove(&s->pending_rulesets, &ruleset->pending);
	htab_remove(&s->rulesets, &ruleset->node);
	signed_shelf_drop(s, &ruleset->stored);
	alloc_free(ruleset);
}

bool signed_shelf_store(struct signed_shelf *s, struct stored *stored, struct text bytes)
{
	char *copy;

	/* Longer ones are refused for their size as they stand; their bytes are not needed. */
	if (bytes.len > ENVELOPE_MAX)
		bytes.len = ENVELOPE_MAX + 1;
	if (s->bytes + bytes.len > SIGNED_BYTES_MAX || (copy = alloc_copy(bytes.len == 0 ? "" : bytes.at, bytes.len)) == NULL)
		return false;
	signed_shelf_drop(s, stored);
	*stored = (struct stored){ copy, bytes.len };
	s->bytes += bytes.len;
	return true;
}

void signed_shelf_drop(struct signed_shelf *s, struct stored *stored)
{
	s->bytes -= stored->len;
	alloc_free(stored->bytes);
	*stored = (struct stored){ NULL, 0 };
}

void signed_shelf_mark(struct list *list, struct list_node *node)
{
	if (!list_node_is_linked(node))
		list_push_back(list, node);
}
