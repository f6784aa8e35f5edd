/*
 * Segments received and still named, by id, each with the number of its uses by the newest snapshot. One without a use goes at the sweep
 * after the next root was taken. Main thread only.
 */
#ifndef EGRESS_DAEMON_SEGMENT_STORE_H
#define EGRESS_DAEMON_SEGMENT_STORE_H

#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/htab.h"
#include "base/list.h"
#include "image/snapshot.h"

struct segment_store {
	struct htab by_id;
	struct hash_key key;
	struct list fresh; /* without a use, received since the last root */
	struct list stale; /* without a use, to go */
};

enum err segment_store_init(struct segment_store *s) ATTR_MUST_CHECK;
void segment_store_finish(struct segment_store *s);
/* Keep a segment (its reference is taken over, also on failure); one that is here already is dropped. */
enum err segment_store_put(struct segment_store *s, struct segment *segment) ATTR_MUST_CHECK;
/* snapshot_find_fn over a store. */
struct segment *segment_store_find(void *store, const uint8_t id[LAYOUT_ID_LEN]);
/* A root was taken that made `after` out of `before` (NULL: nothing): count what it names, at the cost of what differs. */
void segment_store_follow(struct segment_store *s, const struct snapshot *before, const struct snapshot *after);
/* Drop what no snapshot on the way names any more. */
void segment_store_sweep(struct segment_store *s);
size_t segment_store_count(const struct segment_store *s);

#endif
