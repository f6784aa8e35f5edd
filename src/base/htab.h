/*
 * Keyed hash table over intrusive nodes: chained, grows by doubling, never owns what it indexes.
 * The caller hashes (base/hash, random key) and compares; wrap it in typed functions where it is used.
 */
#ifndef EGRESS_BASE_HTAB_H
#define EGRESS_BASE_HTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct htab_node {
	struct htab_node *next; /* borrowed chain */
	uint64_t hash;
};

struct htab {
	struct htab_node **buckets; /* owned */
	size_t bucket_count;        /* a power of two, or 0 before the first insert */
	size_t count;
};

/* Is `node` the one that `key` means? Called only for equal hashes. */
typedef bool htab_same_fn(const struct htab_node *node, const void *key);

void htab_init(struct htab *t);
/* Free the buckets; the nodes are the caller's. */
void htab_finish(struct htab *t);
/* Insert; does not look for an equal key. Fails only for memory (nothing inserted). */
enum err htab_insert(struct htab *t, struct htab_node *node, uint64_t hash) ATTR_MUST_CHECK;
/* Find the first node with this hash that `same` accepts; NULL if none. */
struct htab_node *htab_find(const struct htab *t, uint64_t hash, htab_same_fn *same,
			    const void *key);
/* Remove a node that is in the table. */
void htab_remove(struct htab *t, struct htab_node *node);
/* Walk all nodes: start with NULL; the node returned may be removed before the next call only if `next` was asked first. */
struct htab_node *htab_next(const struct htab *t, const struct htab_node *node);
/* Every node; the one at hand may be removed. Emptying a table by asking for its first node looks at the empty buckets each time. */
#define HTAB_FOREACH(node, next_node, table)                                                                              \
	for ((node) = htab_next((table), NULL); (node) != NULL && ((next_node) = htab_next((table), (node)), true);        \
	     (node) = (next_node))

#endif
