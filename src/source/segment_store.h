/*
 * Segments by id, counted by who uses them, and (for publish) which of them the daemon has: of the holdings that are wanted, under way or
 * adopted; and of what is in force in a signed set.
 */
#ifndef EGRESS_SOURCE_SEGMENT_STORE_H
#define EGRESS_SOURCE_SEGMENT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/htab.h"
#include "base/list.h"
#include "compiler/emit.h"
#include "lease/gate.h"

/* What publish needs to know of a lease's segment. */
struct stored_lease {
	enum gate_slot_state state; /* never CLOSED */
	uint64_t rev;
	uint64_t exp_ms;      /* wall time; 0: no bound */
	uint64_t exp_mono_ns; /* the same on the other clock, from when it was first seen */
	const char *listener; /* in its bytes; "" when it names none */
};

struct stored_segment {
	struct htab_node node;   /* by the first bytes of the id, which is a digest */
	struct list_node unsent; /* in the store's list while the daemon shall have it and was not sent it */
	struct emitted body;
	unsigned use_count;  /* who needs it; 0: it is gone */
	unsigned hold_count; /* for how many of these the daemon must have it; 0: it has none, or is to forget it */
	struct stored_segment **rulesets; /* owned array, each used, and held as long as this is */
	size_t ruleset_count;
	struct stored_lease lease; /* of a lease's */
};

struct segment_store {
	struct htab by_id;  /* of struct stored_segment, owned */
	struct list unsent; /* of stored_segment.unsent */
};

void segment_store_init(struct segment_store *s);
/* Nothing may be in use any more. */
void segment_store_finish(struct segment_store *s);
/* NULL when it is not here. */
struct stored_segment *segment_store_find(const struct segment_store *s, const uint8_t id[LAYOUT_ID_LEN]);
/*
 * Use a segment: share it, or the one that is here. The bytes of a lease's are `verified`, and *out_is_new says whether `lease` is for the
 * caller to fill in (publish; others have no use for it). INVALID: it names a ruleset that is not here.
 */
enum err segment_store_use(struct segment_store *s, const struct emitted *segment, const struct layout_id *rulesets, size_t ruleset_count,
			   bool *out_is_new, struct stored_segment **out_segment) ATTR_MUST_CHECK;
/* Accept NULL. The last to give it up destroys it. */
void segment_store_use_more(struct stored_segment *segment);
void segment_store_unuse(struct segment_store *s, struct stored_segment *segment);
/* Use it, and the daemon shall have it. Accept NULL. */
void segment_store_hold(struct segment_store *s, struct stored_segment *segment);
void segment_store_unhold(struct segment_store *s, struct stored_segment *segment);
/* The next that the daemon lacks; NULL: it has them all. */
struct stored_segment *segment_store_next_unsent(const struct segment_store *s);
void segment_store_note_sent(struct segment_store *s, struct stored_segment *segment);

#endif
