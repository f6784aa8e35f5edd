/*
 * One event loop per thread: watches on descriptors, timers, an end-of-turn queue, and messages from other threads. The only
 * includer of libevent; tests/fake/loop_fake.c implements the same header over scripted time. Knows no session.
 *
 * All but loop_post and loop_stop are for the loop's own thread. No function here calls back before it returns.
 */
#ifndef EGRESS_NET_LOOP_H
#define EGRESS_NET_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/list.h"

struct loop;

enum { LOOP_READ = 1, LOOP_WRITE = 2 };

/* `what` holds LOOP_READ or LOOP_WRITE or both. Level-triggered: it comes again while the condition holds. */
typedef void loop_fd_fn(void *arg, int fd, unsigned what);
typedef void loop_fn(void *arg);

/* A watch on one descriptor, embedded in its owner; two watches on one descriptor (one for reading, one for writing) are fine. */
struct loop_watch {
	struct loop *loop; /* borrowed; NULL before init */
	loop_fd_fn *on_ready;
	void *arg;         /* borrowed */
	int fd;            /* borrowed */
	bool started;
	_Alignas(8) unsigned char opaque[128]; /* the backend's event */
};

struct loop_timer {
	struct loop *loop; /* borrowed */
	loop_fn *on_time;
	void *arg;         /* borrowed */
	bool started;
	_Alignas(8) unsigned char opaque[128];
};

/* Work for the end of the current turn, embedded in its owner. */
struct loop_deferred {
	struct list_node node;
	loop_fn *run;
	void *arg; /* borrowed */
};

/* A message from any thread, embedded in what is handed over; the receiver owns it once `on_message` runs. */
struct loop_message {
	struct loop_message *next; /* the mailbox's */
	loop_fn *on_message;
	void *arg;
};

struct loop *loop_create(void) ATTR_MUST_CHECK;
/* Drop what is deferred (running it) and queued messages (not running them); all watches must have been stopped. */
void loop_destroy(struct loop *l);
/* Turn until loop_stop. */
void loop_run(struct loop *l);
/* One turn: wait for at most `wait_ms` (0: do not wait), run what is ready, then the end-of-turn queue. */
void loop_turn(struct loop *l, unsigned wait_ms);
/* Make loop_run return after its turn; any thread. */
void loop_stop(struct loop *l);
/* Monotonic milliseconds, read once a turn. */
uint64_t loop_now_ms(const struct loop *l);
/* Turns made so far; any thread (livez). */
uint64_t loop_turn_count(const struct loop *l);

void loop_watch_init(struct loop_watch *w, struct loop *l, int fd, unsigned what, loop_fd_fn *on_ready,
		     void *arg);
/* Start (idempotent). The descriptor stays the caller's: stop before closing it. */
enum err loop_watch_start(struct loop_watch *w) ATTR_MUST_CHECK;
/* Stop; harmless when not started. After it on_ready does not come, even if it was ready in this turn. */
void loop_watch_stop(struct loop_watch *w);

/* Lend a write watch from the loop's pool, started; NULL without memory. For the moments when a descriptor is blocked. */
struct loop_watch *loop_lend_write(struct loop *l, int fd, loop_fd_fn *on_ready, void *arg) ATTR_MUST_CHECK;
/* Stop and give back; accepts NULL. */
void loop_return_write(struct loop_watch *w);

void loop_timer_init(struct loop_timer *t, struct loop *l, loop_fn *on_time, void *arg);
/* Start or restart, once. */
enum err loop_timer_start(struct loop_timer *t, uint64_t after_ms) ATTR_MUST_CHECK;
void loop_timer_cancel(struct loop_timer *t);

/* Run at the end of this turn (of the next one when called from outside a callback). A second call before it ran changes nothing. */
void loop_defer(struct loop *l, struct loop_deferred *d, loop_fn *run, void *arg);
/* Take back; harmless when not queued. */
void loop_deferred_cancel(struct loop *l, struct loop_deferred *d);

/* Hand `m` to another loop's thread; wakes it. The caller must not touch `m` afterwards. Order of one sender is kept. */
void loop_post(struct loop *l, struct loop_message *m, loop_fn *on_message, void *arg);

#endif
