/* A number that may not go back; of floors and floor_log. */
#ifndef EGRESS_SOURCE_FLOOR_MARK_H
#define EGRESS_SOURCE_FLOOR_MARK_H

#include <stdbool.h>
#include <stdint.h>

/* The highest number seen, in which epoch, and the payload that bore it: an equal number must be the same payload. */
struct floor_mark {
	uint64_t epoch;     /* keysets have none: 0 */
	uint64_t number;    /* 0: none yet */
	uint8_t sha256[32];
};

static inline bool floor_mark_is_above(const struct floor_mark *a, const struct floor_mark *b)
{
	return a->epoch != b->epoch ? a->epoch > b->epoch : a->number > b->number;
}

#endif
