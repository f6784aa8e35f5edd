/* Segments by id: what a root may name. A root that names anything else is refused by snapshot_create. */
#include "daemon/segment_store.h"

#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"

struct stored {
	struct htab_node node;
	struct segment *segment; /* counted */
	bool is_named;           /* mark of keep_only */
};

static bool stored_is(const struct htab_node *node, const void *id)
{
	return memcmp(segment_id(CONTAINER_OF(node, struct stored, node)->segment), id, LAYOUT_ID_LEN) == 0;
}

static struct stored *find(const struct segment_store *s, const uint8_t *id)
{
	struct htab_node *n = htab_find(&s->by_id, hash_bytes(&s->key, id, LAYOUT_ID_LEN), stored_is, id);

	return n == NULL ? NULL : CONTAINER_OF(n, struct stored, node);
}

enum err segment_store_init(struct segment_store *s)
{
	htab_init(&s->by_id);
	return crypto_random(&s->key, sizeof(s->key));
}

static void drop(struct segment_store *s, struct stored *d)
{
	htab_remove(&s->by_id, &d->node);
	segment_unref(d->segment);
	alloc_free(d);
}

void segment_store_finish(struct segment_store *s)
{
	struct htab_node *n;

	while ((n = htab_next(&s->by_id, NULL)) != NULL)
		drop(s, CONTAINER_OF(n, struct stored, node));
	htab_finish(&s->by_id);
}

enum err segment_store_put(struct segment_store *s, struct segment *segment)
{
	const uint8_t *id = segment_id(segment);
	struct stored *d;

	if (find(s, id) != NULL) {
		segment_unref(segment);
		return ERR_OK;
	}
	d = alloc_zeroed(sizeof(*d));
	if (d == NULL)
		goto out;
	d->segment = segment;
	if (htab_insert(&s->by_id, &d->node, hash_bytes(&s->key, id, LAYOUT_ID_LEN)) == ERR_OK)
		return ERR_OK;
out:
	alloc_free(d);
	segment_unref(segment);
	return ERR_NO_MEMORY;
}

struct segment *segment_store_find(void *store, const uint8_t id[LAYOUT_ID_LEN])
{
	struct stored *d = find(store, id);

	return d == NULL ? NULL : d->segment;
}

static void mark(struct segment_store *s, const struct segment *segment)
{
	struct stored *d = segment == NULL ? NULL : find(s, segment_id(segment));

	if (d != NULL)
		d->is_named = true;
}

void segment_store_keep_only(struct segment_store *s, const struct snapshot *snapshot)
{
	struct htab_node *n, *next;

	mark(s, snapshot_ceiling(snapshot));
	for (size_t i = 0; i < snapshot_lease_count(snapshot); i++) {
		const struct snapshot_lease *l = snapshot_lease_at(snapshot, i);

		mark(s, l->segment);
		for (uint32_t k = 0; k < l->ruleset_count; k++)
			mark(s, l->rulesets[k]);
	}
	for (n = htab_next(&s->by_id, NULL); n != NULL; n = next) {
		struct stored *d = CONTAINER_OF(n, struct stored, node);

		next = htab_next(&s->by_id, n);
		if (!d->is_named)
			drop(s, d);
		else
			d->is_named = false;
	}
}

size_t segment_store_count(const struct segment_store *s)
{
	return s->by_id.count;
}
