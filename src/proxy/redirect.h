/*
 * A redirect seen in clear HTTP becomes a target and is judged as a request of the same lease would be (contract section 1). What was let
 * through is remembered for ten seconds, so that the request that follows it can be told from one that came by itself.
 */
#ifndef EGRESS_PROXY_REDIRECT_H
#define EGRESS_PROXY_REDIRECT_H

#include <stdbool.h>

#include "base/scheme.h"
#include "base/text.h"
#include "facts/target.h"
#include "proxy/session.h"

#define REDIRECT_REMEMBERED_MAX 8
#define REDIRECT_REMEMBER_MS 10000

/* A redirect that was relayed to the guest of a lease. */
struct redirect_seen {
	enum scheme scheme;
	struct target target;
	char from[RECORD_ID_LEN + 1]; /* decision id of the connection that carried it */
	uint64_t at_ms;               /* loop time; 0: empty */
};

/* May this reference (value of Location, or the URL in Refresh) reach the guest? ALLOWED or redirect_denied; an allowed one is remembered. */
enum reason redirect_judge(struct session *s, struct text reference);
/* The decision that led here, if this session's target was just redirected to; NULL if not. Borrowed from the lease's home. */
const char *redirect_find(const struct session *s);

#endif
