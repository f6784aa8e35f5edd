/* A token bucket: `per_s` events a second with a burst of one second's worth. Plain value; time is the caller's. */
#ifndef EGRESS_PROXY_BUCKET_H
#define EGRESS_PROXY_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

struct bucket {
	uint64_t milli;   /* thousandths of a token in hand */
	uint64_t at_ms;   /* when that was true */
	bool started;
};

/* Take one token; false when there is none. `per_s` 0 means no limit. */
static inline bool bucket_take(struct bucket *b, uint64_t per_s, uint64_t now_ms)
{
	uint64_t full, gained;

	if (per_s == 0 || per_s == UINT64_MAX)
		return true;
	full = per_s > UINT64_MAX / 1000 ? UINT64_MAX : per_s * 1000;
	if (!b->started) {
		*b = (struct bucket){ .milli = full, .at_ms = now_ms, .started = true };
	} else if (now_ms > b->at_ms) {
		uint64_t passed = now_ms - b->at_ms;

		gained = passed >= 1000 ? full : passed * per_s;
		b->milli = full - b->milli < gained ? full : b->milli + gained;
		b->at_ms = now_ms;
	}
	if (b->milli > full)
		b->milli = full;
	if (b->milli < 1000)
		return false;
	b->milli -= 1000;
	return true;
}

#endif
