/* The segments of the holdings that are wanted, under way or adopted: bytes by id, and which of them the daemon has. For publish only. */
#ifndef EGRESS_SIDECAR_SEGMENT_STORE_INTERNAL_H
#define EGRESS_SIDECAR_SEGMENT_STORE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/htab.h"
#include "compiler/emit.h"

enum { SEGMENT_WANTED = 1, SEGMENT_SHIPPED = 2, SEGMENT_ADOPTED = 4, SEGMENT_OFFERED = 8 };

struct stored_segment {
	struct htab_node node; /* by the first bytes of the id, which is a digest */
	uint8_t id[LAYOUT_ID_LEN];
	uint8_t *bytes; /* owned */
	size_t len;
	unsigned used_by; /* SEGMENT_* */
	bool is_sent;     /* the daemon has it */
};

struct segment_store {
	struct htab by_id; /* of struct stored_segment, owned */
};

void segment_store_init(struct segment_store *s);
void segment_store_finish(struct segment_store *s);
/* Keep a copy for `use` (if it is not here yet). */
enum err segment_store_keep(struct segment_store *s, const struct emitted *segment, unsigned use) ATTR_MUST_CHECK;
/* No segment is for `use` any more. */
void segment_store_clear(struct segment_store *s, unsigned use);
/* What was for `from` is for `to` as well; what is for neither is not. */
void segment_store_copy_use(struct segment_store *s, unsigned from, unsigned to);
/* The daemon has exactly those of `use`. */
void segment_store_set_sent(struct segment_store *s, unsigned use);
/* Drop what nobody uses. */
void segment_store_sweep(struct segment_store *s);
/* The next segment after `after` (NULL: the first) for `use` that the daemon lacks; NULL: it has them all. Nothing may be kept or swept meanwhile. */
struct stored_segment *segment_store_next_unsent(const struct segment_store *s, unsigned use, const struct stored_segment *after);

#endif
