/* Segments by id: what a root may name. A root that names anything else is refused by snapshot_follow. */
#include "daemon/segment_store.h"

#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"

struct stored {
	struct htab_node node;
	struct list_node idle;   /* in fresh or stale while there is no use */
	struct segment *segment; /* counted */
	struct list *idle_in;    /* borrowed: that list, or NULL */
	uint64_t uses;
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
	list_init(&s->fresh);
	list_init(&s->stale);
	return crypto_random(&s->key, sizeof(s->key));
}

static void move_idle(struct stored *d, struct list *to)
{
	if (d->idle_in != NULL)
		list_remove(d->idle_in, &d->idle);
	if (to != NULL)
		list_push_back(to, &d->idle);
	d->idle_in = to;
}

static void drop(struct segment_store *s, struct stored *d)
{
	move_idle(d, NULL);
	htab_remove(&s->by_id, &d->node);
	segment_unref(d->segment);
	alloc_free(d);
}

void segment_store_finish(struct segment_store *s)
{
	struct htab_node *n, *next;

	HTAB_FOREACH (n, next, &s->by_id)
		drop(s, CONTAINER_OF(n, struct stored, node));
	htab_finish(&s->by_id);
}

enum err segment_store_put(struct segment_store *s, struct segment *segment)
{
	const uint8_t *id = segment_id(segment);
	struct stored *d = find(s, id);

	if (d != NULL) {
		if (d->uses == 0)
			move_idle(d, &s->fresh);
		segment_unref(segment);
		return ERR_OK;
	}
	d = alloc_zeroed(sizeof(*d));
	if (d == NULL)
		goto out;
	d->segment = segment;
	if (htab_insert(&s->by_id, &d->node, hash_bytes(&s->key, id, LAYOUT_ID_LEN)) == ERR_OK) {
		move_idle(d, &s->fresh);
		return ERR_OK;
	}
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

static void use(struct segment_store *s, const struct segment *segment)
{
	struct stored *d = find(s, segment_id(segment));

	if (d == NULL)
		return; /* cannot be: a snapshot is made of what was found here and is not swept while it has a use */
	d->uses++;
	move_idle(d, NULL);
}

static void release(struct segment_store *s, const struct segment *segment)
{
	struct stored *d = find(s, segment_id(segment));

	if (d != NULL && d->uses > 0 && --d->uses == 0)
		move_idle(d, &s->stale);
}

static void on_difference(void *arg, const struct snapshot_lease *was, const struct snapshot_lease *is)
{
	struct segment_store *s = arg;

	if (is != NULL) {
		use(s, is->segment);
		for (uint32_t i = 0; i < is->ruleset_count; i++)
			use(s, is->rulesets[i]);
	}
	if (was != NULL) {
		release(s, was->segment);
		for (uint32_t i = 0; i < was->ruleset_count; i++)
			release(s, was->rulesets[i]);
	}
}

static void on_lease(void *arg, const struct snapshot_lease *lease)
{
	on_difference(arg, NULL, lease);
}

void segment_store_follow(struct segment_store *s, const struct snapshot *before, const struct snapshot *after)
{
	struct list_node *n;

	use(s, snapshot_ceiling(after));
	if (before == NULL) {
		snapshot_visit(after, on_lease, s);
	} else {
		snapshot_diff(before, after, on_difference, s);
		release(s, snapshot_ceiling(before));
	}
	while ((n = list_first(&s->fresh)) != NULL)
		move_idle(CONTAINER_OF(n, struct stored, idle), &s->stale);
}

void segment_store_sweep(struct segment_store *s)
{
	struct list_node *n;

	while ((n = list_first(&s->stale)) != NULL)
		drop(s, CONTAINER_OF(n, struct stored, idle));
}

size_t segment_store_count(const struct segment_store *s)
{
	return s->by_id.count;
}
