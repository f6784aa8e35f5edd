/* The last few refusals, kept to be asked for (`why`): of one lease, or of guests that fit none. Plain state of one thread. */
#ifndef EGRESS_PROXY_RECENT_H
#define EGRESS_PROXY_RECENT_H

#include <stdint.h>

#include "decision/record.h"

#define RECENT_MAX 16

struct recent {
	struct record *at[RECENT_MAX]; /* owned ring, newest at (count - 1) % MAX; NULL: never used */
	uint64_t count;                /* so far */
};

/* Keep a copy; the oldest goes. Without memory nothing is kept: the record itself was emitted. */
void recent_remember(struct recent *r, const struct record *record);
/* Those that are kept, oldest first: begin with *io_at 0. NULL after the newest. */
const struct record *recent_next(const struct recent *r, uint64_t *io_at);
void recent_finish(struct recent *r);

#endif
