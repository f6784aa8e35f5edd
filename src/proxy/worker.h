/*
 * What one thread holds: its loop, listeners, resolver, pumps, sessions by state, homes of leases, and the world it judges by. The
 * daemon creates workers before the sandbox and speaks to them only by posts.
 */
#ifndef EGRESS_PROXY_WORKER_H
#define EGRESS_PROXY_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/htab.h"
#include "base/list.h"
#include "base/pool.h"
#include "lease/gate.h"
#include "metrics/metrics.h"
#include "net/ares_link.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/pump.h"
#include "net/resolver.h"
#include "proxy/lease_home.h"
#include "proxy/limits.h"
#include "proxy/session.h"
#include "proxy/world.h"

#define WORKER_MAX 64

/* What the daemon gives all workers: shared, outliving them. */
struct worker_shared {
	struct gate *gate;        /* borrowed */
	struct limits *limits;    /* borrowed */
	struct hash_key home_key; /* of the hash that finds a lease's home */
	unsigned count;
	struct worker *worker[WORKER_MAX]; /* owned by the daemon */
	/* Takes a copy of a record, on the thread of the worker that it names; the guest is told afterwards. */
	void (*on_record)(void *arg, const struct record *record);
	/* Some times a second, on the worker's thread; NULL: nobody wants to know. */
	void (*on_record_tick)(void *arg, unsigned worker);
	/* Is there room for so many records and `spare` in it (audit = required)? NULL: always. On the worker's thread. */
	bool (*has_record_room)(void *arg, unsigned worker, size_t records, bool spare);
	void *record_arg;
};

struct worker {
	unsigned index;
	struct worker_shared *shared; /* borrowed */
	struct loop *loop;            /* owned */
	struct metrics *metrics;      /* owned */
	struct ares_link *ares;       /* owned */
	struct resolver *resolver;    /* owned */
	struct pump_worker pump;
	struct world *world;          /* counted; never NULL once running */
	struct pool sessions, handshakes, establishes, tunnels;
	struct list in_state[SESSION_STATE_COUNT]; /* of struct session by in_state */
	struct htab homes;            /* of struct lease_home by slot */
	struct list home_list;        /* of struct lease_home by peers */
	struct recent refused;        /* guests that fit no lease, or came when none was in force */
	struct list listeners;        /* of struct worker_listener */
	struct list dead;             /* sessions closed in this turn, freed at its end */
	struct loop_deferred bury;
	struct loop_timer tick;
	uint64_t hold_bytes;          /* first flights held now, in all */
	uint64_t wall_ms, wall_at_mono_ms; /* wall time that never goes back */
	unsigned ticks;
	bool draining;
};

struct worker_options {
	unsigned index;
	unsigned pipes;    /* for splice */
	unsigned channels; /* of the resolver */
	const struct ares_link_sockets *dns_sockets; /* NULL: real ones; see net/ares_link.h */
};

/* Make a worker with everything that the sandbox forbids to make later. Not yet running; not yet a thread. */
enum err worker_create(struct worker_shared *shared, const struct worker_options *options, struct world *world,
		       struct worker **out_worker) ATTR_MUST_CHECK;
/* The thread must have ended. Accepts NULL. */
void worker_destroy(struct worker *w);
/* The thread's body: turns until worker_stop; then closes what is left. */
void worker_run(struct worker *w);

/*
 * Orders from other threads: each is one post; `on_done` runs on `reply_loop` afterwards with `arg`. They fail only for memory,
 * and then nothing happened.
 */
/* By number, for the last answers come when their worker is gone. */
typedef void worker_done_fn(void *arg, unsigned worker, uint64_t result);
struct worker_reply {
	struct loop *loop;       /* NULL: nobody wants to know */
	worker_done_fn *on_done;
	void *arg;
};
/* Adopt `world` (referenced) at the end of a turn and judge live sessions of changed leases again; result: sessions cut. */
enum err worker_adopt(struct worker *w, struct world *world, const struct worker_reply *reply) ATTR_MUST_CHECK;
/* Close every session of `slot` in every phase; result: sessions closed. */
enum err worker_revoke(struct worker *w, uint32_t slot, enum reason why, const struct worker_reply *reply) ATTR_MUST_CHECK;
/* Take over a listening socket from the sidecar number `epoch`; on failure its descriptor is closed and the result is 0. */
enum err worker_listen(struct worker *w, const char *name, int fd, uint64_t epoch, const struct worker_reply *reply) ATTR_MUST_CHECK;
/* Close the listeners of this name; result: how many. */
enum err worker_unlisten(struct worker *w, const char *name, const struct worker_reply *reply) ATTR_MUST_CHECK;
/* Close what sidecars before `epoch` handed over, guests that wait there being taken first; result: how many. */
enum err worker_unlisten_older(struct worker *w, uint64_t epoch, const struct worker_reply *reply) ATTR_MUST_CHECK;
/* Stop accepting, refuse handshakes, let tunnels end; result: sessions left. */
enum err worker_drain(struct worker *w, const struct worker_reply *reply) ATTR_MUST_CHECK;
/* Run `fn` on the worker's thread (reports for tools). */
typedef uint64_t worker_call_fn(void *arg, struct worker *w);
enum err worker_call(struct worker *w, worker_call_fn *fn, void *fn_arg, const struct worker_reply *reply) ATTR_MUST_CHECK;
/* End the loop; any thread. */
void worker_stop(struct worker *w);

/* For the files of the flow, on the worker's own thread. */
uint64_t worker_wall_ms(struct worker *w);
/* The worker on which everything about this lease id lives. */
struct worker *worker_home_of(const struct worker_shared *shared, struct text lease_id);
/* The home of a lease, made when missing; NULL without memory. */
struct lease_home *worker_home(struct worker *w, const struct lease_table_entry *entry) ATTR_MUST_CHECK;
struct lease_home *worker_find_home(const struct worker *w, uint32_t slot);
void worker_record(struct worker *w, const struct record *record);
/* Records that one session may still cause: the answer, a refusal of its stream, its end. */
#define WORKER_RECORDS_ADMITTED 3
/*
 * With audit = required: do the records of all sessions here and `more` beside them fit, none being lost? `spare`: and those of connections that
 * must be refused for want of room.
 */
bool worker_has_record_room(const struct worker *w, size_t more, bool spare);
/* Free `s` at the end of the turn. */
void worker_bury(struct worker *w, struct session *s);
/* A descriptor was closed: listeners that paused may go on. */
void worker_descriptor_freed(struct worker *w);
size_t worker_session_count(const struct worker *w);

#endif
