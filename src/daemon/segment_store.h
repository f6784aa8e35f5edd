/* Segments received and still named, by id. Main thread only. */
#ifndef EGRESS_DAEMON_SEGMENT_STORE_H
#define EGRESS_DAEMON_SEGMENT_STORE_H

#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/htab.h"
#include "image/snapshot.h"

struct segment_store {
	struct htab by_id;
	struct hash_key key;
};

enum err segment_store_init(struct segment_store *s) ATTR_MUST_CHECK;
void segment_store_finish(struct segment_store *s);
/* Keep a segment (its reference is taken over, also on failure); one that is here already is dropped. */
enum err segment_store_put(struct segment_store *s, struct segment *segment) ATTR_MUST_CHECK;
/* snapshot_find_fn over a store. */
struct segment *segment_store_find(void *store, const uint8_t id[LAYOUT_ID_LEN]);
/* Drop all that `snapshot` does not name. */
void segment_store_keep_only(struct segment_store *s, const struct snapshot *snapshot);
size_t segment_store_count(const struct segment_store *s);

#endif
