/* Happy eyeballs (RFC 8305) as arithmetic: which address next, and when. No sockets, no clock of its own. */
#ifndef EGRESS_NET_RACE_H
#define EGRESS_NET_RACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"

#define RACE_ATTEMPTS_MAX 6
#define RACE_DELAY_MS 250

enum race_prefer { RACE_PREFER_V6, RACE_PREFER_V4 };

struct race {
	uint8_t order[RACE_ATTEMPTS_MAX]; /* indexes into the caller's array, families interleaved (section 4) */
	uint8_t count;   /* attempts that will ever be made */
	uint8_t started; /* attempts made */
	uint8_t pending; /* attempts neither failed nor won */
	uint64_t next_at_ms;
};

/* Order `count` endpoints; keeps the first RACE_ATTEMPTS_MAX of the interleaved order. */
void race_init(struct race *r, const struct endpoint *endpoints, size_t count, enum race_prefer prefer,
	       uint64_t now_ms);
/* May an attempt start now? Then *out_index says which, and it counts as started. */
bool race_take(struct race *r, uint64_t now_ms, size_t *out_index);
/* An attempt failed: the next one may start at once. */
void race_failed(struct race *r, uint64_t now_ms);
/* Nothing pending and nothing left to start? */
bool race_is_lost(const struct race *r);
/* Milliseconds until race_take may say yes; UINT64_MAX when nothing is left to start. */
uint64_t race_wait_ms(const struct race *r, uint64_t now_ms);

#endif
