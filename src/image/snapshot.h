/*
 * A ceiling and the leases with the segments they name, immutable and counted: the policy in force. Built aside from what arrived, swapped
 * whole; one that follows another shares all that did not change with it, so that its cost is that of the change. Says which leases
 * changed since another snapshot.
 */
#ifndef EGRESS_IMAGE_SNAPSHOT_H
#define EGRESS_IMAGE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/trie.h"
#include "image/segment.h"

struct snapshot;

/* One lease: its own segment and its shared rulesets, resolved. Immutable and counted; in every snapshot in which it is the same. */
struct snapshot_lease {
	struct trie_item item;     /* in snapshots, by id */
	struct text id;            /* borrowed from the segment */
	struct segment *segment;   /* counted; kind LEASE */
	struct segment **rulesets; /* behind the struct, counted members; kind RULESET, in the lease's order */
	uint32_t ruleset_count;
};

/* Find a segment by id among those received; NULL if unknown. The reference stays the store's. */
typedef struct segment *snapshot_find_fn(void *arg, const uint8_t id[LAYOUT_ID_LEN]);

/*
 * Build what a ROOT segment makes of `before` (NULL: none yet). A complete root takes over what is the same; any other must have the version
 * of `before` as its base. NOT_FOUND when that or a named segment is missing, INVALID when one has the wrong kind; `before` never changes.
 */
enum err snapshot_follow(struct snapshot *before, const struct segment *root, snapshot_find_fn *find, void *arg,
			 struct snapshot **out_snapshot, const char **out_fault) ATTR_MUST_CHECK;
/* Build from a complete ROOT segment alone. */
enum err snapshot_create(const struct segment *root, snapshot_find_fn *find, void *arg,
			 struct snapshot **out_snapshot, const char **out_fault) ATTR_MUST_CHECK;
struct snapshot *snapshot_ref(struct snapshot *s);
void snapshot_unref(struct snapshot *s);

uint64_t snapshot_version(const struct snapshot *s);
bool snapshot_report_allowed(const struct snapshot *s);
struct segment *snapshot_ceiling(const struct snapshot *s);
size_t snapshot_lease_count(const struct snapshot *s);
/* By id; NULL if unknown. Borrowed while the snapshot lives. */
const struct snapshot_lease *snapshot_lease_find(const struct snapshot *s, struct text id);
/* Visit every lease, in no order that means something. */
typedef void snapshot_lease_fn(void *arg, const struct snapshot_lease *lease);
void snapshot_visit(const struct snapshot *s, snapshot_lease_fn *visit, void *arg);
/* Keep a lease beyond its snapshot. */
const struct snapshot_lease *snapshot_lease_ref(const struct snapshot_lease *lease);
void snapshot_lease_unref(const struct snapshot_lease *lease);

/* Did anything that decides differ for this lease (its segment or the ceiling)? `before` or `after` may lack it. */
bool snapshot_lease_changed(const struct snapshot *before, const struct snapshot *after, struct text id);
/* Did something that decides for all leases differ: the ceiling, or what is allowed to be only reported? */
bool snapshot_ceiling_changed(const struct snapshot *before, const struct snapshot *after);
/* Do both descend from one snapshot? Only then they share leases and hashes. */
bool snapshot_is_kin(const struct snapshot *a, const struct snapshot *b);
/* Visit each lease of kin that is another one in `after` than in `before`; NULL where it is missing. Costs what differs. */
typedef void snapshot_diff_fn(void *arg, const struct snapshot_lease *was, const struct snapshot_lease *is);
void snapshot_diff(const struct snapshot *before, const struct snapshot *after, snapshot_diff_fn *visit, void *arg);
/* The keyed hash that a snapshot and its kin are built with. */
uint64_t snapshot_hash(const struct snapshot *s, const void *bytes, size_t len);

#endif
