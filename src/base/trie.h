/*
 * Maps of counted items whose versions share what is equal: a copy costs nothing, a change copies the few nodes on the way to one item, and
 * two versions differ at a cost of what differs. A handle belongs to one thread; what it shares with others is never written again.
 * Items are found by a keyed 64-bit hash (base/hash) and a key; wrap it in typed functions where it is used.
 */
#ifndef EGRESS_BASE_TRIE_H
#define EGRESS_BASE_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/refcount.h"

struct trie_node;

/* What stands in a map, embedded in the caller's object, which may stand in many. Never changed while it does. */
struct trie_item {
	struct refcount refs;
	uint64_t hash; /* of its key */
};

struct trie_ops {
	/* The key of an item, borrowed from it. */
	const void *(*key_of)(const struct trie_item *item);
	/* Is this its key? Called only for equal hashes. */
	bool (*is_key)(const struct trie_item *item, const void *key);
	/* The last reference went, on any thread. */
	void (*destroy)(struct trie_item *item);
};

struct trie {
	const struct trie_ops *ops; /* borrowed: static */
	struct trie_node *root;     /* counted; NULL when empty */
	size_t count;
};

/* A fresh item with one reference, the caller's. */
void trie_item_init(struct trie_item *item, uint64_t hash);
void trie_item_unref(const struct trie_ops *ops, struct trie_item *item);

void trie_init(struct trie *t, const struct trie_ops *ops);
void trie_finish(struct trie *t);
/* Another handle (uninitialised) on what `from` holds now. */
void trie_copy(struct trie *t, const struct trie *from);
/* Add an item, in place of one with the same key; the map counts a reference of its own. NO_MEMORY: nothing changed. */
enum err trie_put(struct trie *t, struct trie_item *item) ATTR_MUST_CHECK;
/* NOT_FOUND or NO_MEMORY: nothing changed. */
enum err trie_remove(struct trie *t, uint64_t hash, const void *key) ATTR_MUST_CHECK;
/* NULL if there is none. Borrowed while a version that holds it lives. */
struct trie_item *trie_find(const struct trie *t, uint64_t hash, const void *key);

/* Visit all items, in no order that means something, until `visit` answers false; was it always true? */
typedef bool trie_visit_fn(void *arg, struct trie_item *item);
bool trie_visit(const struct trie *t, trie_visit_fn *visit, void *arg);
/*
 * Visit each key whose item is another one in `after` than in `before`; `was` or `is` is NULL where it is missing. Both maps must have the
 * same hashes; the cost is that of what they do not share.
 */
typedef void trie_diff_fn(void *arg, struct trie_item *was, struct trie_item *is);
void trie_diff(const struct trie *before, const struct trie *after, trie_diff_fn *visit, void *arg);

#endif
