/*
 * A root and the segments it names, immutable and counted: the policy in force. Built aside from what arrived, swapped whole. Says which
 * leases changed since another snapshot.
 */
#ifndef EGRESS_IMAGE_SNAPSHOT_H
#define EGRESS_IMAGE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "image/segment.h"

struct snapshot;

/* One lease of a snapshot: its own segment and its shared rulesets, resolved. Borrowed while the snapshot lives. */
struct snapshot_lease {
	struct segment *segment;   /* counted; kind LEASE */
	struct segment **rulesets; /* owned array, counted members; kind RULESET, in the lease's order */
	uint32_t ruleset_count;
	uint32_t index;            /* in the snapshot */
};

/* Find a segment by id among those received; NULL if unknown. The reference stays the store's. */
typedef struct segment *snapshot_find_fn(void *arg, const uint8_t id[LAYOUT_ID_LEN]);

/* Build from a ROOT segment (referenced). NOT_FOUND when a named segment is missing, INVALID when one has the wrong kind. */
enum err snapshot_create(struct segment *root, snapshot_find_fn *find, void *arg,
			 struct snapshot **out_snapshot, const char **out_fault) ATTR_MUST_CHECK;
struct snapshot *snapshot_ref(struct snapshot *s);
void snapshot_unref(struct snapshot *s);

uint64_t snapshot_version(const struct snapshot *s);
bool snapshot_report_allowed(const struct snapshot *s);
struct segment *snapshot_ceiling(const struct snapshot *s);
size_t snapshot_lease_count(const struct snapshot *s);
const struct snapshot_lease *snapshot_lease_at(const struct snapshot *s, size_t index);
/* By id; NULL if unknown. */
const struct snapshot_lease *snapshot_lease_find(const struct snapshot *s, struct text id);

/* Did anything that decides differ for this lease (its segment or the ceiling)? `before` or `after` may lack it. */
bool snapshot_lease_changed(const struct snapshot *before, const struct snapshot *after, struct text id);

#endif
