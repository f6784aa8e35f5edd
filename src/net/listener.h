/*
 * Takes bound, listening sockets (opened elsewhere), accepts with a bound per wakeup and without spinning when descriptors
 * or memory run out (pause, spare descriptor, timer, wake on free), and hands over the descriptor. One loop.
 */
#ifndef EGRESS_NET_LISTENER_H
#define EGRESS_NET_LISTENER_H

#include <stdbool.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/err.h"
#include "metrics/metrics.h"
#include "net/loop.h"

struct listener;

struct listener_options {
	const char *name;      /* copied: at most 64 characters */
	unsigned accepts_per_wakeup; /* 0: 16 */
	unsigned pause_ms;     /* 0: 500 */
};

/* A new guest. `fd` is the receiver's; non-blocking, close-on-exec. `source.addr.family` is NONE for unix sockets. */
typedef void listener_accept_fn(void *arg, struct listener *l, int fd, const struct endpoint *source);

/* Take over the listening descriptor `fd` and start accepting. On failure `fd` stays the caller's. */
enum err listener_create(struct loop *loop, struct metrics *metrics, int fd,
			 const struct listener_options *options, listener_accept_fn *on_accept,
			 void *arg, struct listener **out_listener) ATTR_MUST_CHECK;
/* Stop and close; accepts NULL. Queued connections that were not accepted are reset by the kernel. */
void listener_destroy(struct listener *l);
const char *listener_name(const struct listener *l);
bool listener_is_unix(const struct listener *l);
bool listener_is_paused(const struct listener *l);
/* A descriptor was freed: end a pause early. */
void listener_wake(struct listener *l);
/* Accept all that waits now: what a close would reset. */
void listener_take_waiting(struct listener *l);

#endif
