/*
 * Segments by id. Promises that equal segments are kept once and only as long as a holding names them.
 * Called by publish.
 */
#include "sidecar/segment_store_internal.h"

#include <string.h>

#include "base/alloc.h"

static uint64_t hash_of(const uint8_t id[LAYOUT_ID_LEN])
{
	uint64_t hash;

	memcpy(&hash, id, sizeof(hash));
	return hash;
}

static bool has_id(const struct htab_node *node, const void *key)
{
	return memcmp(CONTAINER_OF(node, const struct stored_segment, node)->id, key, LAYOUT_ID_LEN) == 0;
}

static struct stored_segment *next(const struct segment_store *s, const struct stored_segment *before)
{
	struct htab_node *node = htab_next(&s->by_id, before == NULL ? NULL : &before->node);

	return node == NULL ? NULL : CONTAINER_OF(node, struct stored_segment, node);
}

void segment_store_init(struct segment_store *s)
{
	htab_init(&s->by_id);
}

static void segment_destroy(struct stored_segment *segment)
{
	alloc_free(segment->bytes);
	alloc_free(segment);
}

void segment_store_finish(struct segment_store *s)
{
	segment_store_clear(s, ~0U);
	segment_store_sweep(s);
	htab_finish(&s->by_id);
}

enum err segment_store_keep(struct segment_store *s, const struct emitted *segment, unsigned use)
{
	struct htab_node *node = htab_find(&s->by_id, hash_of(segment->id), has_id, segment->id);
	struct stored_segment *fresh;
	enum err e;

	if (node != NULL) {
		CONTAINER_OF(node, struct stored_segment, node)->used_by |= use;
		return ERR_OK;
	}
	fresh = alloc_zeroed(sizeof(*fresh));
	if (fresh == NULL)
		return ERR_NO_MEMORY;
	fresh->bytes = alloc_copy(segment->bytes, segment->len);
	e = fresh->bytes == NULL ? ERR_NO_MEMORY :
				   htab_insert(&s->by_id, &fresh->node, hash_of(segment->id));
	if (e != ERR_OK) {
		segment_destroy(fresh);
		return e;
	}
	memcpy(fresh->id, segment->id, LAYOUT_ID_LEN);
	fresh->len = segment->len;
	fresh->used_by = use;
	return ERR_OK;
}

void segment_store_clear(struct segment_store *s, unsigned use)
{
	for (struct stored_segment *seg = next(s, NULL); seg != NULL; seg = next(s, seg))
		seg->used_by &= ~use;
}

void segment_store_copy_use(struct segment_store *s, unsigned from, unsigned to)
{
	for (struct stored_segment *seg = next(s, NULL); seg != NULL; seg = next(s, seg)) {
		seg->used_by &= ~to;
		if ((seg->used_by & from) != 0)
			seg->used_by |= to;
	}
}

void segment_store_set_sent(struct segment_store *s, unsigned use)
{
	for (struct stored_segment *seg = next(s, NULL); seg != NULL; seg = next(s, seg))
		seg->is_sent = (seg->used_by & use) != 0;
}

void segment_store_sweep(struct segment_store *s)
{
	struct stored_segment *seg = next(s, NULL);

	while (seg != NULL) {
		struct stored_segment *after = next(s, seg);

		if (seg->used_by == 0) {
			htab_remove(&s->by_id, &seg->node);
			segment_destroy(seg);
		}
		seg = after;
	}
}

struct stored_segment *segment_store_next_unsent(const struct segment_store *s, unsigned use,
						 const struct stored_segment *after)
{
	for (struct stored_segment *seg = next(s, after); seg != NULL; seg = next(s, seg)) {
		if ((seg->used_by & use) != 0 && !seg->is_sent)
			return seg;
	}
	return NULL;
}
