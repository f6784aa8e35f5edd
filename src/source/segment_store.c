/*
 * Segments by id. Promises that equal segments are kept once and only as long as somebody uses them, and that what the daemon no longer
 * holds is sent again before it is named again. Called by publish and signed_force.
 */
#include "source/segment_store.h"

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
	return memcmp(CONTAINER_OF(node, const struct stored_segment, node)->body.id, key, LAYOUT_ID_LEN) == 0;
}

void segment_store_init(struct segment_store *s)
{
	htab_init(&s->by_id);
	list_init(&s->unsent);
}

void segment_store_finish(struct segment_store *s)
{
	htab_finish(&s->by_id);
}

struct stored_segment *segment_store_find(const struct segment_store *s, const uint8_t id[LAYOUT_ID_LEN])
{
	struct htab_node *node = htab_find(&s->by_id, hash_of(id), has_id, id);

	return node == NULL ? NULL : CONTAINER_OF(node, struct stored_segment, node);
}

static void segment_destroy(struct stored_segment *segment)
{
	if (segment == NULL)
		return;
	alloc_free(segment->rulesets);
	emitted_finish(&segment->body);
	alloc_free(segment);
}

static enum err create(const struct segment_store *s, const struct emitted *from, const struct layout_id *rulesets,
		       size_t ruleset_count, struct stored_segment **out_segment)
{
	struct stored_segment *segment = alloc_zeroed(sizeof(*segment));
	enum err e = ERR_NO_MEMORY;

	if (segment == NULL)
		return e;
	if (emitted_share(from, &segment->body) != ERR_OK)
		goto out;
	if (ruleset_count > 0 &&
	    (segment->rulesets = alloc_array(ruleset_count, sizeof(struct stored_segment *))) == NULL)
		goto out;
	for (size_t i = 0; i < ruleset_count; i++) {
		segment->rulesets[i] = segment_store_find(s, rulesets[i].bytes);
		if (segment->rulesets[i] == NULL) {
			e = ERR_INVALID;
			goto out;
		}
	}
	segment->ruleset_count = ruleset_count;
	*out_segment = segment;
	return ERR_OK;
out:
	segment_destroy(segment);
	return e;
}

enum err segment_store_use(struct segment_store *s, const struct emitted *segment, const struct layout_id *rulesets, size_t ruleset_count,
			   bool *out_is_new, struct stored_segment **out_segment)
{
	struct stored_segment *stored = segment_store_find(s, segment->id);
	enum err e = ERR_OK;

	if (stored == NULL) {
		e = create(s, segment, rulesets, ruleset_count, &stored);
		if (e == ERR_OK)
			e = htab_insert(&s->by_id, &stored->node, hash_of(stored->body.id));
		if (e != ERR_OK) {
			segment_destroy(stored);
			return e;
		}
		for (size_t i = 0; i < ruleset_count; i++)
			stored->rulesets[i]->use_count++;
	}
	*out_is_new = stored->use_count == 0;
	stored->use_count++;
	*out_segment = stored;
	return ERR_OK;
}

void segment_store_use_more(struct stored_segment *segment)
{
	if (segment != NULL)
		segment->use_count++;
}

void segment_store_unuse(struct segment_store *s, struct stored_segment *segment)
{
	if (segment == NULL || --segment->use_count > 0)
		return;
	for (size_t i = 0; i < segment->ruleset_count; i++)
		segment_store_unuse(s, segment->rulesets[i]);
	htab_remove(&s->by_id, &segment->node);
	segment_destroy(segment);
}

void segment_store_hold(struct segment_store *s, struct stored_segment *segment)
{
	if (segment == NULL)
		return;
	segment->use_count++;
	if (segment->hold_count++ > 0)
		return;
	for (size_t i = 0; i < segment->ruleset_count; i++)
		segment_store_hold(s, segment->rulesets[i]);
	list_push_back(&s->unsent, &segment->unsent);
}

void segment_store_unhold(struct segment_store *s, struct stored_segment *segment)
{
	if (segment == NULL)
		return;
	if (--segment->hold_count == 0) {
		list_remove(&s->unsent, &segment->unsent);
		for (size_t i = 0; i < segment->ruleset_count; i++)
			segment_store_unhold(s, segment->rulesets[i]);
	}
	segment_store_unuse(s, segment);
}

struct stored_segment *segment_store_next_unsent(const struct segment_store *s)
{
	struct list_node *node = list_first(&s->unsent);

	return node == NULL ? NULL : CONTAINER_OF(node, struct stored_segment, unsent);
}

void segment_store_note_sent(struct segment_store *s, struct stored_segment *segment)
{
	list_remove(&s->unsent, &segment->unsent);
}
