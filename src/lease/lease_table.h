/*
 * The leases of one snapshot, indexed: by id, by listener, by source prefix. Answers "which lease is this guest?" with exactly one
 * lease or a reason. Immutable after creation, counted; a table that follows another shares all that did not change with it. Each
 * lease has the slot that the daemon gave it.
 */
#ifndef EGRESS_LEASE_LEASE_TABLE_H
#define EGRESS_LEASE_LEASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "decision/reason.h"
#include "image/snapshot.h"
#include "lease/lease.h"
#include "lease/lease_token.h"

struct lease_table;

#define LEASE_TABLE_NO_SLOT UINT32_MAX

/* The slot of a lease id in the control page, or LEASE_TABLE_NO_SLOT; asked for each lease that is new or changed, or has none. */
typedef uint32_t lease_table_slot_fn(void *arg, struct text id);

/* Immutable, and the same one in every table in which neither the lease nor its slot changed. */
struct lease_table_entry {
	struct trie_item item;              /* in tables, by id */
	const struct snapshot_lease *lease; /* counted */
	uint32_t slot;
};

/* Index `snapshot` (referenced). What it shares with the snapshot of `before` (NULL: none) is not looked at again. */
enum err lease_table_follow(struct lease_table *before, struct snapshot *snapshot, lease_table_slot_fn *slot_of, void *arg,
			    struct lease_table **out_table) ATTR_MUST_CHECK;
/* Index `snapshot` (referenced) alone. */
enum err lease_table_create(struct snapshot *snapshot, lease_table_slot_fn *slot_of, void *arg,
			    struct lease_table **out_table) ATTR_MUST_CHECK;
struct lease_table *lease_table_ref(struct lease_table *t);
void lease_table_unref(struct lease_table *t);
struct snapshot *lease_table_snapshot(const struct lease_table *t);

/* By id; NULL if unknown. Borrowed while the table lives. */
const struct lease_table_entry *lease_table_find(const struct lease_table *t, struct text id);
/* Visit each lease whose entry is another one in `after` than in `before`; NULL where it is missing. For kin it costs what differs. */
typedef void lease_table_diff_fn(void *arg, const struct lease_table_entry *was, const struct lease_table_entry *is);
void lease_table_diff(const struct lease_table *before, const struct lease_table *after, lease_table_diff_fn *visit, void *arg);

/* What a guest that arrived like this can be, before it said a word. */
struct lease_arrival_options {
	enum reason alone; /* ALLOWED: one lease is satisfied by arrival alone; else lease_unknown or lease_ambiguous */
	const struct lease_table_entry *entry; /* alone == ALLOWED */
	bool token_may_help; /* some lease that wants a token may arrive this way */
};
void lease_table_arrive(const struct lease_table *t, const struct lease_arrival *arrival,
			struct lease_arrival_options *out_options);

/*
 * Which lease do these credentials name, arriving like this? ALLOWED with *out_entry; auth_failed for an unknown lease, a wrong or expired
 * token or a bad shape (all at the same cost); identity_mismatch when the token is right but the arrival is another's; and where the
 * arrival alone is enough, credentials that fit no lease count as none.
 */
enum reason lease_table_claim(const struct lease_table *t, const struct lease_arrival *arrival,
			      const struct lease_claim *claim, uint64_t wall_ms,
			      const struct lease_table_entry **out_entry) ATTR_MUST_CHECK;

/* Copy what sessions and records need. */
void lease_table_read(const struct lease_table_entry *entry, struct lease *out_lease);
/* Is the lease itself in force at `wall_ms`? ALLOWED, or lease_not_yet … scope_none in the order of the reasons. */
enum reason lease_table_is_live(const struct lease_table_entry *entry, uint64_t wall_ms);

#endif
