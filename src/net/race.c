/*
 * Happy eyeballs as arithmetic. Promises an order with the families interleaved and starts that are 250 ms apart unless
 * one failed; refuses to know sockets and clocks. Called by connector.
 */
#include "net/race.h"

#include <assert.h>

/* The first index at or after `from` whose family is (or is not) `family`; `count` when there is none. */
static size_t seek(const struct endpoint *endpoints, size_t count, size_t from, uint8_t family, bool equal)
{
	while (from < count && (endpoints[from].addr.family == family) != equal)
		from++;
	return from;
}

void race_init(struct race *r, const struct endpoint *endpoints, size_t count, enum race_prefer prefer,
	       uint64_t now_ms)
{
	uint8_t first_family = prefer == RACE_PREFER_V4 ? ADDR_V4 : ADDR_V6;
	size_t at[2]; /* next of the preferred family, next of the other */
	bool other = false;

	*r = (struct race){ .next_at_ms = now_ms };
	/* Indexes are one byte; what stands behind them would never be among the six anyway. */
	if (count > UINT8_MAX + 1)
		count = UINT8_MAX + 1;
	at[0] = seek(endpoints, count, 0, first_family, true);
	at[1] = seek(endpoints, count, 0, first_family, false);
	while (r->count < RACE_ATTEMPTS_MAX && (at[0] < count || at[1] < count)) {
		size_t side = other ? 1 : 0;

		if (at[side] >= count)
			side = 1 - side;
		r->order[r->count++] = (uint8_t)at[side];
		at[side] = seek(endpoints, count, at[side] + 1, first_family, side == 0);
		other = side == 0;
	}
}

bool race_take(struct race *r, uint64_t now_ms, size_t *out_index)
{
	if (r->started == r->count || now_ms < r->next_at_ms)
		return false;
	*out_index = r->order[r->started++];
	r->pending++;
	r->next_at_ms = now_ms + RACE_DELAY_MS;
	return true;
}

void race_failed(struct race *r, uint64_t now_ms)
{
	assert(r->pending > 0);
	r->pending--;
	r->next_at_ms = now_ms;
}

bool race_is_lost(const struct race *r)
{
	return r->pending == 0 && r->started == r->count;
}

uint64_t race_wait_ms(const struct race *r, uint64_t now_ms)
{
	if (r->started == r->count)
		return UINT64_MAX;
	return now_ms >= r->next_at_ms ? 0 : r->next_at_ms - now_ms;
}
