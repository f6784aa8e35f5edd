/*
 * A root and the segments it names, held together by reference. Compares kinds and ids once; knows nothing of rules. Called by daemon,
 * lease, policy and tools.
 */
#include "image/snapshot.h"

#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/refcount.h"

struct snapshot {
	struct refcount refs;
	uint64_t version;
	bool report_allowed;
	struct segment *ceiling; /* counted */
	struct trie leases;      /* of struct snapshot_lease */
	struct hash_key key;     /* of all that descend from one snapshot */
};

static const void *lease_key(const struct trie_item *item)
{
	return &CONTAINER_OF(item, const struct snapshot_lease, item)->id;
}

static bool lease_is(const struct trie_item *item, const void *id)
{
	return text_equal(CONTAINER_OF(item, const struct snapshot_lease, item)->id, *(const struct text *)id);
}

static void lease_destroy(struct trie_item *item)
{
	struct snapshot_lease *l = CONTAINER_OF(item, struct snapshot_lease, item);

	for (uint32_t i = 0; i < l->ruleset_count; i++)
		segment_unref(l->rulesets[i]);
	segment_unref(l->segment);
	alloc_free(l);
}

static const struct trie_ops lease_ops = { lease_key, lease_is, lease_destroy };

static void destroy(struct snapshot *s)
{
	trie_finish(&s->leases);
	segment_unref(s->ceiling);
	alloc_free(s);
}

/* A snapshot under construction. */
struct builder {
	struct snapshot *snapshot;
	const struct segment *root;
	const struct layout_root_lease *named; /* of the root */
	uint32_t named_count;
	snapshot_find_fn *find;
	void *arg;
	const char *fault;
	enum err err; /* of a visit */
};

static enum err find_kind(struct builder *b, const struct layout_id *id, enum layout_kind kind, struct segment **out_segment)
{
	struct segment *found = b->find(b->arg, id->bytes);

	if (found == NULL) {
		b->fault = "a named segment is missing";
		return ERR_NOT_FOUND;
	}
	if (segment_kind(found) != kind || memcmp(segment_id(found), id->bytes, LAYOUT_ID_LEN) != 0) {
		b->fault = "a named segment is of another kind";
		return ERR_INVALID;
	}
	*out_segment = segment_ref(found);
	return ERR_OK;
}

/* The lease of a segment, whose reference is taken over. */
static enum err make_lease(struct builder *b, struct segment *segment, struct snapshot_lease **out_lease)
{
	uint32_t count;
	const struct layout_id *ids = segment_table(segment, LAYOUT_RULESETS, &count);
	struct snapshot_lease *l = alloc_zeroed(sizeof(*l) + count * sizeof(struct segment *));
	enum err e = ERR_OK;

	if (l == NULL) {
		segment_unref(segment);
		return ERR_NO_MEMORY;
	}
	l->segment = segment;
	l->id = segment_text(segment, segment_lease(segment)->id);
	l->rulesets = (struct segment **)(void *)(l + 1);
	trie_item_init(&l->item, snapshot_hash(b->snapshot, l->id.at, l->id.len));
	while (e == ERR_OK && l->ruleset_count < count) {
		e = find_kind(b, &ids[l->ruleset_count], LAYOUT_RULESET, &l->rulesets[l->ruleset_count]);
		l->ruleset_count += e == ERR_OK;
	}
	if (e != ERR_OK) {
		snapshot_lease_unref(l);
		return e;
	}
	*out_lease = l;
	return ERR_OK;
}

static enum err add_lease(struct builder *b, struct text id, const struct layout_id *segment_id)
{
	struct snapshot_lease *l;
	struct segment *segment;
	enum err e = find_kind(b, segment_id, LAYOUT_LEASE, &segment);

	if (e != ERR_OK)
		return e;
	if (!text_equal(id, segment_text(segment, segment_lease(segment)->id))) {
		segment_unref(segment);
		b->fault = "a lease segment is of another lease";
		return ERR_INVALID;
	}
	e = make_lease(b, segment, &l);
	if (e != ERR_OK)
		return e;
	e = trie_put(&b->snapshot->leases, &l->item);
	snapshot_lease_unref(l);
	return e;
}

static enum err drop_lease(struct snapshot *s, struct text id)
{
	enum err e = trie_remove(&s->leases, snapshot_hash(s, id.at, id.len), &id);

	return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err apply_named(struct builder *b, const struct layout_root_lease *named)
{
	struct text id = segment_text(b->root, named->id);
	const struct snapshot_lease *was;

	if (layout_id_is_none(&named->segment))
		return drop_lease(b->snapshot, id);
	was = snapshot_lease_find(b->snapshot, id);
	if (was != NULL && memcmp(segment_id(was->segment), named->segment.bytes, LAYOUT_ID_LEN) == 0)
		return ERR_OK;
	return add_lease(b, id, &named->segment);
}

static bool is_named(const struct builder *b, struct text id)
{
	uint32_t low = 0, high = b->named_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int order = segment_compare_ids(segment_text(b->root, b->named[middle].id), id);

		if (order == 0)
			return true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

static bool on_perhaps_gone(void *arg, struct trie_item *item)
{
	struct builder *b = arg;
	struct text id = CONTAINER_OF(item, struct snapshot_lease, item)->id;

	if (!is_named(b, id))
		b->err = drop_lease(b->snapshot, id);
	return b->err == ERR_OK;
}

static enum err apply_root(struct builder *b, const struct snapshot *before)
{
	enum err e = find_kind(b, &segment_root(b->root)->ceiling, LAYOUT_CEILING, &b->snapshot->ceiling);

	for (uint32_t i = 0; e == ERR_OK && i < b->named_count; i++)
		e = apply_named(b, &b->named[i]);
	if (e != ERR_OK || before == NULL || segment_root(b->root)->base != 0)
		return e;
	/* All that are named are there: if there are more, some were of `before` only. */
	if (b->snapshot->leases.count > b->named_count)
		(void)trie_visit(&before->leases, on_perhaps_gone, b);
	return b->err;
}

static enum err begin(const struct snapshot *before, const struct segment *root, struct snapshot **out_snapshot, const char **out_fault)
{
	struct snapshot *s;
	enum err e = ERR_OK;

	if (segment_kind(root) != LAYOUT_ROOT) {
		*out_fault = "the root is of another kind";
		return ERR_INVALID;
	}
	if (segment_root(root)->base != 0 && (before == NULL || before->version != segment_root(root)->base)) {
		*out_fault = "the root has another base";
		return ERR_NOT_FOUND;
	}
	s = alloc_zeroed(sizeof(*s));
	if (s == NULL)
		return ERR_NO_MEMORY;
	refcount_init(&s->refs);
	s->version = segment_root(root)->version;
	s->report_allowed = (segment_root(root)->flags & LAYOUT_ROOT_REPORT_ALLOWED) != 0;
	if (before != NULL) {
		trie_copy(&s->leases, &before->leases);
		s->key = before->key;
	} else {
		trie_init(&s->leases, &lease_ops);
		e = crypto_random(&s->key, sizeof(s->key));
	}
	if (e != ERR_OK) {
		*out_fault = err_text(e);
		destroy(s);
		return e;
	}
	*out_snapshot = s;
	return ERR_OK;
}

enum err snapshot_follow(struct snapshot *before, const struct segment *root, snapshot_find_fn *find, void *arg,
			 struct snapshot **out_snapshot, const char **out_fault)
{
	struct builder b = { .root = root, .find = find, .arg = arg, .fault = "out of memory" };
	enum err e;

	*out_fault = b.fault;
	e = begin(before, root, &b.snapshot, out_fault);
	if (e != ERR_OK)
		return e;
	b.named = segment_table(root, LAYOUT_ROOT_LEASES, &b.named_count);
	e = apply_root(&b, before);
	if (e != ERR_OK) {
		*out_fault = b.fault;
		destroy(b.snapshot);
		return e;
	}
	*out_snapshot = b.snapshot;
	return ERR_OK;
}

enum err snapshot_create(const struct segment *root, snapshot_find_fn *find, void *arg, struct snapshot **out_snapshot,
			 const char **out_fault)
{
	return snapshot_follow(NULL, root, find, arg, out_snapshot, out_fault);
}

struct snapshot *snapshot_ref(struct snapshot *s)
{
	refcount_ref(&s->refs);
	return s;
}

void snapshot_unref(struct snapshot *s)
{
	if (s != NULL && refcount_unref(&s->refs))
		destroy(s);
}

uint64_t snapshot_version(const struct snapshot *s)
{
	return s->version;
}

bool snapshot_report_allowed(const struct snapshot *s)
{
	return s->report_allowed;
}

struct segment *snapshot_ceiling(const struct snapshot *s)
{
	return s->ceiling;
}

size_t snapshot_lease_count(const struct snapshot *s)
{
	return s->leases.count;
}

const struct snapshot_lease *snapshot_lease_find(const struct snapshot *s, struct text id)
{
	struct trie_item *item = trie_find(&s->leases, snapshot_hash(s, id.at, id.len), &id);

	return item == NULL ? NULL : CONTAINER_OF(item, struct snapshot_lease, item);
}

struct visit {
	snapshot_lease_fn *on_lease;
	snapshot_diff_fn *on_difference;
	void *arg;
};

static bool on_item(void *arg, struct trie_item *item)
{
	struct visit *v = arg;

	v->on_lease(v->arg, CONTAINER_OF(item, struct snapshot_lease, item));
	return true;
}

void snapshot_visit(const struct snapshot *s, snapshot_lease_fn *visit, void *arg)
{
	struct visit v = { .on_lease = visit, .arg = arg };

	(void)trie_visit(&s->leases, on_item, &v);
}

const struct snapshot_lease *snapshot_lease_ref(const struct snapshot_lease *lease)
{
	refcount_ref(&((struct snapshot_lease *)(uintptr_t)lease)->item.refs);
	return lease;
}

void snapshot_lease_unref(const struct snapshot_lease *lease)
{
	if (lease != NULL)
		trie_item_unref(&lease_ops, &((struct snapshot_lease *)(uintptr_t)lease)->item);
}

static bool same_segment(const struct segment *a, const struct segment *b)
{
	return memcmp(segment_id(a), segment_id(b), LAYOUT_ID_LEN) == 0;
}

bool snapshot_lease_changed(const struct snapshot *before, const struct snapshot *after, struct text id)
{
	const struct snapshot_lease *was = before == NULL ? NULL : snapshot_lease_find(before, id);
	const struct snapshot_lease *is = after == NULL ? NULL : snapshot_lease_find(after, id);

	if (was == NULL || is == NULL)
		return was != is;
	/* Rulesets are named by digest inside the lease's segment, so its digest covers them. */
	return !same_segment(was->segment, is->segment) || snapshot_ceiling_changed(before, after);
}

bool snapshot_ceiling_changed(const struct snapshot *before, const struct snapshot *after)
{
	return !same_segment(before->ceiling, after->ceiling) || before->report_allowed != after->report_allowed;
}

bool snapshot_is_kin(const struct snapshot *a, const struct snapshot *b)
{
	return a->key.k0 == b->key.k0 && a->key.k1 == b->key.k1;
}

static void on_item_difference(void *arg, struct trie_item *was, struct trie_item *is)
{
	struct visit *v = arg;

	v->on_difference(v->arg, was == NULL ? NULL : CONTAINER_OF(was, struct snapshot_lease, item),
			 is == NULL ? NULL : CONTAINER_OF(is, struct snapshot_lease, item));
}

void snapshot_diff(const struct snapshot *before, const struct snapshot *after, snapshot_diff_fn *visit, void *arg)
{
	struct visit v = { .on_difference = visit, .arg = arg };

	trie_diff(&before->leases, &after->leases, on_item_difference, &v);
}

uint64_t snapshot_hash(const struct snapshot *s, const void *bytes, size_t len)
{
	return hash_bytes(&s->key, bytes, len);
}
