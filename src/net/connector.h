/*
 * Runs the race over permits: the only caller of connect(2) for guests. Asks the given check before every connect and once
 * connected, compares the socket's peer with the permit, keeps one winner and closes the rest.
 */
#ifndef EGRESS_NET_CONNECTOR_H
#define EGRESS_NET_CONNECTOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/err.h"
#include "decision/permit.h"
#include "decision/reason.h"
#include "net/loop.h"
#include "net/race.h"

struct connector; /* one attempt to reach one target */

#define CONNECTOR_PERMITS_MAX 64 /* both families of one name (wire/dns_answer) */

/* ALLOWED while the permit holds; any other reason ends the whole race with it. May not cancel the connector. */
typedef enum reason connector_check_fn(void *arg, const struct permit *permit);

struct connector_options {
	enum race_prefer prefer;
	uint64_t deadline_ms;  /* for the whole race, from start; 0: 10000 */
	struct addr source4, source6; /* family NONE: the kernel chooses */
	uint32_t mark;         /* SO_MARK; 0: none */
	unsigned keepalive_idle_s; /* 0: 60 */
};

struct connector_result {
	enum reason reason;      /* ALLOWED, or why none connected: check's word, else the most telling of refused, unreachable, timeout, resource */
	int fd;                  /* ALLOWED: connected socket, the receiver's; else -1 */
	uint8_t socks_reply;     /* the reply for a failure: tells 03 (network) from 04 (host) */
	struct permit permit;    /* ALLOWED: the one that won */
	struct endpoint local;   /* ALLOWED: our end */
	uint8_t attempts;
};

typedef void connector_done_fn(void *arg, const struct connector_result *result);

/* Start with 1 to CONNECTOR_PERMITS_MAX permits (copied). on_done comes once, from the end of a turn; not after connector_cancel. */
enum err connector_start(struct loop *loop, const struct permit *permits, size_t count,
			 const struct connector_options *options, connector_check_fn *check,
			 connector_done_fn *on_done, void *arg, struct connector **out_connector)
	ATTR_MUST_CHECK;
/* Close all attempts and forget; accepts NULL. Not for use after on_done. */
void connector_cancel(struct connector *c);

#endif
