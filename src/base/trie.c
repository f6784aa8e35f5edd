/*
 * A hash trie of 32 ways, nodes as small as what they hold. Before a node is changed it is copied unless nobody else can reach it, from the
 * root down, so that a failure on the way leaves the same items. Keys that share a whole hash stand in one bucket at the end.
 */
#include "base/trie.h"

#include <string.h>

#include "base/alloc.h"
#include "base/attr.h"

#define WAY_BITS 5
#define BUCKET_DEPTH 13 /* the hash is used up: 13 * 5 bits reach past 64 */

union child {
	struct trie_item *item; /* counted */
	struct trie_node *node; /* counted */
};

struct trie_node {
	struct refcount refs;
	uint32_t items, nodes; /* which ways lead to an item, which to a node: never both. In a bucket `items` is their number */
	union child child[];   /* of the ways in use, ascending */
};

static unsigned way_of(uint64_t hash, unsigned depth)
{
	return (unsigned)(hash >> (depth * WAY_BITS)) & 31;
}

static unsigned place_of(const struct trie_node *n, unsigned way)
{
	return (unsigned)__builtin_popcount((n->items | n->nodes) & ((1u << way) - 1));
}

static unsigned child_count(const struct trie_node *n, unsigned depth)
{
	return depth == BUCKET_DEPTH ? n->items : (unsigned)__builtin_popcount(n->items | n->nodes);
}

static struct trie_node *node_create(unsigned count)
{
	struct trie_node *n = alloc_zeroed(sizeof(*n) + count * sizeof(union child));

	if (n != NULL)
		refcount_init(&n->refs);
	return n;
}

void trie_item_init(struct trie_item *item, uint64_t hash)
{
	refcount_init(&item->refs);
	item->hash = hash;
}

void trie_item_unref(const struct trie_ops *ops, struct trie_item *item)
{
	if (refcount_unref(&item->refs))
		ops->destroy(item);
}

/* One child of a node, or an empty way. */
struct spot {
	struct trie_item *item;
	struct trie_node *node;
};

static struct spot spot_at(const struct trie_node *n, unsigned way)
{
	struct spot spot = { NULL, NULL };

	if ((n->nodes & (1u << way)) != 0)
		spot.node = n->child[place_of(n, way)].node;
	else if ((n->items & (1u << way)) != 0)
		spot.item = n->child[place_of(n, way)].item;
	return spot;
}

static void node_unref(const struct trie_ops *ops, struct trie_node *n, unsigned depth)
{
	if (!refcount_unref(&n->refs))
		return;
	if (depth == BUCKET_DEPTH) {
		for (unsigned i = 0; i < n->items; i++)
			trie_item_unref(ops, n->child[i].item);
	}
	for (unsigned way = 0; way < 32 && depth < BUCKET_DEPTH; way++) {
		struct spot spot = spot_at(n, way);

		if (spot.node != NULL)
			node_unref(ops, spot.node, depth + 1);
		else if (spot.item != NULL)
			trie_item_unref(ops, spot.item);
	}
	alloc_free(n);
}

static void ref_children(struct trie_node *n, unsigned depth)
{
	if (depth == BUCKET_DEPTH) {
		for (unsigned i = 0; i < n->items; i++)
			refcount_ref(&n->child[i].item->refs);
		return;
	}
	for (unsigned way = 0; way < 32; way++) {
		struct spot spot = spot_at(n, way);

		if (spot.node != NULL)
			refcount_ref(&spot.node->refs);
		else if (spot.item != NULL)
			refcount_ref(&spot.item->refs);
	}
}

/* Make the node at `at`, whose parent nobody else can reach, one that may be written. */
static enum err node_own(const struct trie_ops *ops, struct trie_node **at, unsigned depth)
{
	struct trie_node *shared = *at, *copy;
	unsigned count = child_count(shared, depth);

	if (refcount_is_sole(&shared->refs))
		return ERR_OK;
	copy = node_create(count);
	if (copy == NULL)
		return ERR_NO_MEMORY;
	copy->items = shared->items;
	copy->nodes = shared->nodes;
	memcpy(copy->child, shared->child, count * sizeof(union child));
	ref_children(copy, depth);
	node_unref(ops, shared, depth);
	*at = copy;
	return ERR_OK;
}

/* Put an item (referenced) into its free place of the owned node at `at`. */
static enum err add_child(struct trie_node **at, unsigned depth, unsigned place, struct trie_item *item)
{
	struct trie_node *before = *at, *n;
	unsigned count = child_count(before, depth);

	n = node_create(count + 1);
	if (n == NULL)
		return ERR_NO_MEMORY;
	n->items = depth == BUCKET_DEPTH ? count + 1 : before->items | 1u << way_of(item->hash, depth);
	n->nodes = before->nodes;
	memcpy(n->child, before->child, place * sizeof(union child));
	memcpy(n->child + place + 1, before->child + place, (count - place) * sizeof(union child));
	refcount_ref(&item->refs);
	n->child[place].item = item;
	alloc_free(before); /* its references moved */
	*at = n;
	return ERR_OK;
}

/* The item at `place` of an owned node gets a node of its own below, for another one shares its way so far. */
static enum err push_down(struct trie_node *n, unsigned depth, unsigned place)
{
	struct trie_item *item = n->child[place].item;
	struct trie_node *below = node_create(1);

	if (below == NULL)
		return ERR_NO_MEMORY;
	below->items = depth + 1 == BUCKET_DEPTH ? 1 : 1u << way_of(item->hash, depth + 1);
	below->child[0].item = item;
	n->child[place].node = below;
	n->items &= ~(1u << way_of(item->hash, depth));
	n->nodes |= 1u << way_of(item->hash, depth);
	return ERR_OK;
}

static bool is_same(const struct trie_ops *ops, const struct trie_item *a, const struct trie_item *b)
{
	return a->hash == b->hash && ops->is_key(a, ops->key_of(b));
}

static void replace(const struct trie_ops *ops, union child *child, struct trie_item *item)
{
	struct trie_item *before = child->item;

	refcount_ref(&item->refs);
	child->item = item;
	trie_item_unref(ops, before);
}

static unsigned place_in_bucket(const struct trie_ops *ops, const struct trie_node *n, const void *key)
{
	unsigned i = 0;

	while (i < n->items && !ops->is_key(n->child[i].item, key))
		i++;
	return i;
}

static enum err put_in_bucket(struct trie *t, struct trie_node **at, struct trie_item *item)
{
	unsigned place = place_in_bucket(t->ops, *at, t->ops->key_of(item));
	enum err e;

	if (place < (*at)->items) {
		replace(t->ops, &(*at)->child[place], item);
		return ERR_OK;
	}
	e = add_child(at, BUCKET_DEPTH, place, item);
	if (e == ERR_OK)
		t->count++;
	return e;
}

void trie_init(struct trie *t, const struct trie_ops *ops)
{
	*t = (struct trie){ .ops = ops };
}

void trie_finish(struct trie *t)
{
	if (t->root != NULL)
		node_unref(t->ops, t->root, 0);
	t->root = NULL;
	t->count = 0;
}

void trie_copy(struct trie *t, const struct trie *from)
{
	*t = *from;
	if (t->root != NULL)
		refcount_ref(&t->root->refs);
}

enum err trie_put(struct trie *t, struct trie_item *item)
{
	struct trie_node **at = &t->root;
	enum err e = ERR_OK;

	if (t->root == NULL)
		t->root = node_create(0);
	if (t->root == NULL)
		return ERR_NO_MEMORY;
	for (unsigned depth = 0; e == ERR_OK; depth++) {
		unsigned way, place;
		struct spot spot;

		e = node_own(t->ops, at, depth);
		if (e != ERR_OK)
			break;
		if (depth == BUCKET_DEPTH)
			return put_in_bucket(t, at, item);
		way = way_of(item->hash, depth);
		place = place_of(*at, way);
		spot = spot_at(*at, way);
		if (spot.node == NULL && spot.item == NULL) {
			e = add_child(at, depth, place, item);
			t->count += e == ERR_OK;
			break;
		}
		if (spot.item != NULL && is_same(t->ops, spot.item, item)) {
			replace(t->ops, &(*at)->child[place], item);
			break;
		}
		if (spot.item != NULL)
			e = push_down(*at, depth, place);
		at = &(*at)->child[place].node;
	}
	return e;
}

/* Take a child out of an owned node; its reference is the caller's now. */
static void take_out(struct trie_node *n, unsigned depth, unsigned way, unsigned place)
{
	unsigned count = child_count(n, depth);

	memmove(n->child + place, n->child + place + 1, (count - place - 1) * sizeof(union child));
	if (depth == BUCKET_DEPTH) {
		n->items--;
		return;
	}
	n->items &= ~(1u << way);
	n->nodes &= ~(1u << way);
}

/* An item that stands alone in a node below the root stands in the parent instead; so does nothing. */
static void collapse(struct trie_node **const path[], unsigned depth, uint64_t hash)
{
	for (; depth > 0; depth--) {
		struct trie_node *n = *path[depth], *parent = *path[depth - 1];
		unsigned count = child_count(n, depth), way = way_of(hash, depth - 1);

		if (count > 1 || n->nodes != 0)
			return;
		if (count == 0) {
			take_out(parent, depth - 1, way, place_of(parent, way));
		} else {
			*(union child *)(void *)path[depth] = n->child[0];
			parent->nodes &= ~(1u << way);
			parent->items |= 1u << way;
		}
		alloc_free(n);
	}
}

enum err trie_remove(struct trie *t, uint64_t hash, const void *key)
{
	struct trie_node **path[BUCKET_DEPTH + 1] = { &t->root };
	struct trie_item *item = trie_find(t, hash, key);
	unsigned depth, place, way = 0;

	if (item == NULL)
		return ERR_NOT_FOUND;
	for (depth = 0;; depth++) {
		if (node_own(t->ops, path[depth], depth) != ERR_OK)
			return ERR_NO_MEMORY;
		if (depth == BUCKET_DEPTH) {
			place = place_in_bucket(t->ops, *path[depth], key);
			break;
		}
		way = way_of(hash, depth);
		place = place_of(*path[depth], way);
		if (spot_at(*path[depth], way).node == NULL)
			break;
		path[depth + 1] = &(*path[depth])->child[place].node;
	}
	take_out(*path[depth], depth, way, place);
	collapse(path, depth, hash);
	t->count--;
	trie_item_unref(t->ops, item);
	if (t->count == 0)
		trie_finish(t);
	return ERR_OK;
}

struct trie_item *trie_find(const struct trie *t, uint64_t hash, const void *key)
{
	struct spot spot = { NULL, t->root };

	for (unsigned depth = 0; spot.node != NULL; depth++) {
		if (depth == BUCKET_DEPTH) {
			unsigned place = place_in_bucket(t->ops, spot.node, key);

			return place < spot.node->items ? spot.node->child[place].item : NULL;
		}
		spot = spot_at(spot.node, way_of(hash, depth));
	}
	return spot.item != NULL && spot.item->hash == hash && t->ops->is_key(spot.item, key) ? spot.item : NULL;
}

static bool visit_node(struct trie_node *n, unsigned depth, trie_visit_fn *visit, void *arg)
{
	if (depth == BUCKET_DEPTH) {
		for (unsigned i = 0; i < n->items; i++) {
			if (!visit(arg, n->child[i].item))
				return false;
		}
		return true;
	}
	for (unsigned way = 0; way < 32; way++) {
		struct spot spot = spot_at(n, way);

		if ((spot.node != NULL && !visit_node(spot.node, depth + 1, visit, arg)) ||
		    (spot.item != NULL && !visit(arg, spot.item)))
			return false;
	}
	return true;
}

bool trie_visit(const struct trie *t, trie_visit_fn *visit, void *arg)
{
	return t->root == NULL || visit_node(t->root, 0, visit, arg);
}

struct differ {
	const struct trie_ops *ops;
	trie_diff_fn *visit;
	void *arg;
	bool is_turned;         /* lone belongs to `after` */
	struct trie_item *lone; /* what stands against all items of a node; NULL: nothing, or it was met */
};

static void tell(const struct differ *d, struct trie_item *many, struct trie_item *lone)
{
	if (many == lone)
		return;
	if (d->is_turned)
		d->visit(d->arg, many, lone);
	else
		d->visit(d->arg, lone, many);
}

static bool on_many(void *arg, struct trie_item *item)
{
	struct differ *d = arg;

	if (d->lone != NULL && is_same(d->ops, d->lone, item)) {
		tell(d, item, d->lone);
		d->lone = NULL;
	} else {
		tell(d, item, NULL);
	}
	return true;
}

/* One item, or none, against a node, an item or nothing. */
static void diff_lone(struct differ d, struct trie_item *lone, struct spot many, unsigned depth, bool is_turned)
{
	d.lone = lone;
	d.is_turned = is_turned;
	if (many.node != NULL)
		(void)visit_node(many.node, depth, on_many, &d);
	else if (many.item != NULL)
		(void)on_many(&d, many.item);
	if (d.lone != NULL)
		tell(&d, NULL, d.lone);
}

static void diff_buckets(const struct differ *d, const struct trie_node *a, const struct trie_node *b)
{
	for (unsigned i = 0; i < a->items; i++) {
		unsigned place = place_in_bucket(d->ops, b, d->ops->key_of(a->child[i].item));
		struct trie_item *is = place < b->items ? b->child[place].item : NULL;

		if (is != a->child[i].item)
			d->visit(d->arg, a->child[i].item, is);
	}
	for (unsigned i = 0; i < b->items; i++) {
		if (place_in_bucket(d->ops, a, d->ops->key_of(b->child[i].item)) == a->items)
			d->visit(d->arg, NULL, b->child[i].item);
	}
}

static void diff_spots(const struct differ *d, struct spot a, struct spot b, unsigned depth)
{
	if (a.item == b.item && a.node == b.node)
		return;
	if (a.node == NULL)
		diff_lone(*d, a.item, b, depth, false);
	else if (b.node == NULL)
		diff_lone(*d, b.item, a, depth, true);
	else if (depth == BUCKET_DEPTH)
		diff_buckets(d, a.node, b.node);
	for (unsigned way = 0; way < 32 && a.node != NULL && b.node != NULL && depth < BUCKET_DEPTH; way++)
		diff_spots(d, spot_at(a.node, way), spot_at(b.node, way), depth + 1);
}

void trie_diff(const struct trie *before, const struct trie *after, trie_diff_fn *visit, void *arg)
{
	const struct differ d = { .ops = after->ops, .visit = visit, .arg = arg };

	diff_spots(&d, (struct spot){ NULL, before->root }, (struct spot){ NULL, after->root }, 0);
}
