/*
 * Ways to arrive (source prefix and listener) and the leases of each, in versions that share what is equal. Answers which leases a guest
 * satisfies without walking all of them. Written by lease_table, immutable once its table is handed out.
 */
#ifndef EGRESS_LEASE_WAYS_H
#define EGRESS_LEASE_WAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/trie.h"

#define WAYS_GROUPS_MAX (1 + 33 + 129) /* any source; each length of each family */

struct way {
	struct prefix source; /* family NONE: any source will do */
	struct text listener; /* borrowed; empty: any listener will do */
};

/* All ways with sources of one family and length. */
struct way_group {
	uint8_t family, len;
	uint32_t count; /* of ways, never 0 */
};

struct ways {
	struct trie by_way;           /* way to its leases */
	const struct trie_ops *entry_ops; /* borrowed: static; of what stands for a lease */
	struct hash_key key;
	struct way_group groups[WAYS_GROUPS_MAX];
	size_t group_count;
};

/* Leases are `entry_ops` items; the key is a random one. */
void ways_init(struct ways *w, const struct trie_ops *entry_ops, const struct hash_key *key);
void ways_finish(struct ways *w);
/* Another handle (uninitialised) on what `from` holds now. */
void ways_copy(struct ways *w, const struct ways *from);
/* A lease may arrive this way, in place of one with the same key. NO_MEMORY: nothing changed. */
enum err ways_add(struct ways *w, const struct way *way, struct trie_item *entry) ATTR_MUST_CHECK;
/* It may no more; a lease that does not is no fault. NO_MEMORY: nothing changed. */
enum err ways_drop(struct ways *w, const struct way *way, const struct trie_item *entry) ATTR_MUST_CHECK;
/* Visit the leases of every way that source and listener satisfy, some perhaps again, until `visit` answers false. */
void ways_visit(const struct ways *w, const struct addr *source, struct text listener, trie_visit_fn *visit, void *arg);

#endif
