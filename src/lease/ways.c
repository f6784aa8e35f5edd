/*
 * Each way is a counted set of leases, found by the keyed hash of its prefix and listener; a guest's address is cut to every length that
 * some way has. Knows leases only as items with a key. Called by lease_table.
 */
#include "lease/ways.h"

#include <string.h>

#include "base/alloc.h"

/* The leases of one way. Immutable once it stands in a map. */
struct way_set {
	struct trie_item item; /* by way */
	struct way way;        /* its listener is the copy below */
	struct trie entries;   /* never empty */
	char listener[];
};

static const void *set_key(const struct trie_item *item)
{
	return &CONTAINER_OF(item, const struct way_set, item)->way;
}

static bool set_is(const struct trie_item *item, const void *key)
{
	const struct way *mine = &CONTAINER_OF(item, const struct way_set, item)->way, *way = key;

	return mine->source.addr.family == way->source.addr.family && mine->source.len == way->source.len &&
	       memcmp(mine->source.addr.octets, way->source.addr.octets, sizeof(way->source.addr.octets)) == 0 &&
	       text_equal(mine->listener, way->listener);
}

static void set_destroy(struct trie_item *item)
{
	struct way_set *s = CONTAINER_OF(item, struct way_set, item);

	trie_finish(&s->entries);
	alloc_free(s);
}

static const struct trie_ops set_ops = { set_key, set_is, set_destroy };

static uint64_t hash_way(const struct ways *w, const struct way *way)
{
	struct hash_key key = w->key;
	uint8_t source[2 + sizeof(way->source.addr.octets)] = { way->source.addr.family, way->source.len };

	memcpy(source + 2, way->source.addr.octets, sizeof(way->source.addr.octets));
	if (way->listener.len > 0)
		key.k0 ^= hash_bytes(&w->key, way->listener.at, way->listener.len);
	return hash_bytes(&key, source, sizeof(source));
}

void ways_init(struct ways *w, const struct trie_ops *entry_ops, const struct hash_key *key)
{
	*w = (struct ways){ .entry_ops = entry_ops, .key = *key };
	trie_init(&w->by_way, &set_ops);
}

void ways_finish(struct ways *w)
{
	trie_finish(&w->by_way);
	w->group_count = 0;
}

void ways_copy(struct ways *w, const struct ways *from)
{
	*w = *from;
	trie_copy(&w->by_way, &from->by_way);
}

static const struct way_set *find(const struct ways *w, const struct way *way, uint64_t hash)
{
	struct trie_item *item = trie_find(&w->by_way, hash, way);

	return item == NULL ? NULL : CONTAINER_OF(item, const struct way_set, item);
}

/* A set for `way` with what `from` (NULL: nothing) holds. */
static struct way_set *set_create(const struct ways *w, const struct way *way, uint64_t hash, const struct way_set *from)
{
	struct way_set *s = alloc_zeroed(sizeof(*s) + way->listener.len);

	if (s == NULL)
		return NULL;
	trie_item_init(&s->item, hash);
	s->way = *way;
	if (way->listener.len > 0)
		memcpy(s->listener, way->listener.at, way->listener.len);
	s->way.listener.at = s->listener;
	if (from != NULL)
		trie_copy(&s->entries, &from->entries);
	else
		trie_init(&s->entries, w->entry_ops);
	return s;
}

/* Where a group of this family and length stands, or would. */
static size_t group_place(const struct ways *w, const struct prefix *source)
{
	size_t i = 0;

	while (i < w->group_count && (w->groups[i].family < source->addr.family ||
				      (w->groups[i].family == source->addr.family && w->groups[i].len < source->len)))
		i++;
	return i;
}

static void count_way(struct ways *w, const struct prefix *source)
{
	size_t i = group_place(w, source);

	if (i == w->group_count || w->groups[i].family != source->addr.family || w->groups[i].len != source->len) {
		memmove(&w->groups[i + 1], &w->groups[i], (w->group_count - i) * sizeof(w->groups[0]));
		w->groups[i] = (struct way_group){ .family = source->addr.family, .len = source->len };
		w->group_count++;
	}
	w->groups[i].count++;
}

static void uncount_way(struct ways *w, const struct prefix *source)
{
	size_t i = group_place(w, source);

	if (--w->groups[i].count > 0)
		return;
	w->group_count--;
	memmove(&w->groups[i], &w->groups[i + 1], (w->group_count - i) * sizeof(w->groups[0]));
}

enum err ways_add(struct ways *w, const struct way *way, struct trie_item *entry)
{
	uint64_t hash = hash_way(w, way);
	const struct way_set *before = find(w, way, hash);
	struct way_set *s = set_create(w, way, hash, before);
	bool is_new;
	enum err e;

	if (s == NULL)
		return ERR_NO_MEMORY;
	is_new = before == NULL; /* putting the new set may free the one before */
	e = trie_put(&s->entries, entry);
	if (e == ERR_OK)
		e = trie_put(&w->by_way, &s->item);
	if (e == ERR_OK && is_new)
		count_way(w, &way->source);
	trie_item_unref(&set_ops, &s->item);
	return e;
}

enum err ways_drop(struct ways *w, const struct way *way, const struct trie_item *entry)
{
	uint64_t hash = hash_way(w, way);
	const struct way_set *before = find(w, way, hash);
	const void *key = w->entry_ops->key_of(entry);
	struct way_set *s;
	enum err e;

	if (before == NULL || trie_find(&before->entries, entry->hash, key) == NULL)
		return ERR_OK;
	if (before->entries.count == 1) {
		e = trie_remove(&w->by_way, hash, way);
		if (e == ERR_OK)
			uncount_way(w, &way->source);
		return e;
	}
	s = set_create(w, way, hash, before);
	if (s == NULL)
		return ERR_NO_MEMORY;
	e = trie_remove(&s->entries, entry->hash, key);
	if (e == ERR_OK)
		e = trie_put(&w->by_way, &s->item);
	trie_item_unref(&set_ops, &s->item);
	return e;
}

/* The first `len` bits of an address. */
static struct prefix cut(const struct addr *a, uint8_t len)
{
	struct prefix p = { .addr = { .family = a->family }, .len = len };

	memcpy(p.addr.octets, a->octets, len / 8u);
	if (len % 8 != 0)
		p.addr.octets[len / 8] = (uint8_t)(a->octets[len / 8] & ~(0xff >> (len % 8)));
	return p;
}

static bool visit_way(const struct ways *w, const struct way *way, trie_visit_fn *visit, void *arg)
{
	const struct way_set *s = find(w, way, hash_way(w, way));

	return s == NULL || trie_visit(&s->entries, visit, arg);
}

void ways_visit(const struct ways *w, const struct addr *source, struct text listener, trie_visit_fn *visit, void *arg)
{
	for (size_t i = 0; i < w->group_count; i++) {
		const struct way_group *g = &w->groups[i];
		struct way way = { .listener = { .at = "", .len = 0 } };

		if (g->family != ADDR_NONE && g->family != source->family)
			continue;
		if (g->family != ADDR_NONE)
			way.source = cut(source, g->len);
		if (!visit_way(w, &way, visit, arg))
			return;
		way.listener = listener;
		if (listener.len > 0 && !visit_way(w, &way, visit, arg))
			return;
	}
}
