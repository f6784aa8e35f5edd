/* Several addresses of one service: which is next, and how long to wait before it. Arithmetic; knows no socket. */
#ifndef EGRESS_STORE_ENDPOINTS_H
#define EGRESS_STORE_ENDPOINTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

#define ENDPOINTS_MAX 16
#define ENDPOINTS_URL_MAX 512
#define ENDPOINTS_WAIT_MAX_MS 5000

struct endpoints {
	char *urls[ENDPOINTS_MAX]; /* owned; without a final slash */
	size_t count, at;
	unsigned failures;         /* since the last success */
};

/* Take "https://A,https://B/base" apart; a part without a scheme gets `scheme` ("http://"). LIMIT, INVALID, NO_MEMORY leave it empty. */
enum err endpoints_init(struct endpoints *e, const char *list, const char *scheme) ATTR_MUST_CHECK;
void endpoints_finish(struct endpoints *e);
/* The one to use now. */
const char *endpoints_url(const struct endpoints *e);
/* It answered as it should. */
void endpoints_succeed(struct endpoints *e);
/* It did not: go to the next one; returns how long to wait first, in ms: doubling, capped, with jitter. */
uint64_t endpoints_fail(struct endpoints *e);
/* Between half of `wait_ms` and all of it. */
uint64_t endpoints_jitter(uint64_t wait_ms);
/* Between nothing and `wait_ms`. */
uint64_t endpoints_spread(uint64_t wait_ms);

#endif
