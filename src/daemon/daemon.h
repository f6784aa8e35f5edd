/*
 * The process: owns workers, the control page, what was received (segments, listeners, databases) and the world in force. Runs on the
 * main thread's loop; workers hear of it only by posts.
 */
#ifndef EGRESS_DAEMON_DAEMON_H
#define EGRESS_DAEMON_DAEMON_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "config/load.h"
#include "control/channel.h"
#include "control/command.h"
#include "control/record_stream.h"
#include "daemon/segment_store.h"
#include "daemon/slots.h"
#include "lease/gate.h"
#include "metrics/metrics.h"
#include "net/address_watch.h"
#include "net/loop.h"
#include "proxy/limits.h"
#include "proxy/worker.h"
#include "proxy/world.h"

#define DAEMON_PREFIXES_MAX 1024 /* own addresses and networks, in all */
#define CALLS_MAX 64             /* commands under way, in all */

struct admin;

/* One connected peer on the control socket. */
struct peer {
	struct list_node peers;
	struct daemon *daemon;    /* borrowed */
	struct channel *channel;  /* owned */
	bool is_sidecar;
};

struct daemon {
	struct config *config;       /* counted: the file, then what the sidecar sent */
	struct loop *loop;           /* owned: the main thread's */
	struct metrics *metrics;     /* owned: the main thread's block */
	struct gate *gate;           /* owned */
	struct limits *limits;       /* owned */
	struct record_stream *records; /* owned */
	char proxy[65];                  /* in records; the observer of `records` borrows it */
	struct worker_shared shared; /* owns the workers */
	pthread_t threads[WORKER_MAX];
	unsigned threads_running;
	uint32_t connections_max;    /* of all workers, from descriptors */
	int listeners_below;         /* descriptor that no listener reaches: the rest is for what it takes to be controlled */

	struct address_watch *addresses; /* owned */
	struct addr *own;            /* owned array: the kernel's list */
	size_t own_count;
	struct own_addresses *own_set; /* counted: with networks of the options; NULL: to be made anew */
	int country_fd, asn_fd;      /* owned: sealed memfds, -1 */
	struct geoip *geoip;         /* counted */

	struct segment_store segments;
	struct slots slots;
	struct lease_table *table;   /* counted: of the newest world */
	struct world *world;         /* counted: newest, perhaps not adopted by all yet */
	uint64_t adopted_version;    /* of the newest snapshot that every worker judges by; 0: none */
	uint64_t version_due;        /* adopted by all, but not said yet: adoptions are pending; 0: none */
	unsigned adoptions_pending;

	int control_fd;              /* owned: listening */
	struct loop_watch control_watch;
	struct loop_timer control_pause; /* started while accepting fails */
	struct log_limit control_complaint, listener_complaint, peer_complaint;
	struct list peers;           /* of struct peer */
	struct peer *sidecar;        /* borrowed from peers; NULL */
	uint64_t sidecar_number;     /* of the sidecar that is or was connected last */
	uint64_t next_request;       /* ids of forwarded commands */
	struct list calls;           /* of struct command_call by node: commands not answered yet */
	struct buf sidecar_metrics;  /* what the sidecar reported for /metrics */
	char sidecar_state[64];

	struct admin *admin;         /* owned; NULL before the sidecar sent its socket */
	int signal_fd;               /* owned */
	struct loop_watch signal_watch;
	struct loop_timer drain_timer, watch_timer;
	uint64_t drain_deadline_ms;
	bool draining;
	uint64_t turns_seen[WORKER_MAX], turns_seen_at_ms[WORKER_MAX]; /* livez */
	bool without_sandbox;
};

/* daemon.c */
/* Build a world from what the daemon holds now and have every worker adopt it; `version` is the snapshot's (0: no new one). */
enum err daemon_publish(struct daemon *d, uint64_t version) ATTR_MUST_CHECK;
/* Give every lease of `snapshot`, which follows the newest, its slot and publish; on failure all stays as it was. */
enum err daemon_take_snapshot(struct daemon *d, struct snapshot *snapshot, uint64_t version) ATTR_MUST_CHECK;
/* The newest snapshot taken, adopted or not; NULL: none. */
struct snapshot *daemon_newest_snapshot(const struct daemon *d);
/* Its version; 0: none. */
uint64_t daemon_newest_version(const struct daemon *d);
/* Start draining: stop accepting, end when tunnels have, or at the deadline. Idempotent. */
void daemon_drain(struct daemon *d);
/* The address list changed (address_watch_fn). */
void daemon_on_addresses(void *daemon, const struct addr *addrs, size_t count);
/* Addresses or networks changed: the next world gets a new set of them. */
void daemon_forget_own_set(struct daemon *d);
/* Databases changed: open what is held. */
enum err daemon_load_geo(struct daemon *d) ATTR_MUST_CHECK;
/* Is every loop turning (livez)? */
bool daemon_is_alive(const struct daemon *d);
/* LIVE or LAG, and every worker on the newest world (readyz)? */
bool daemon_is_ready(const struct daemon *d);
void daemon_watch_loops(void *daemon);

/* sidecar_link.c: what a sidecar may say. */
void sidecar_link_hello(struct peer *p, const struct ctl_msg *msg);
void sidecar_link_message(struct peer *p, const struct ctl_msg *msg, int fd);
void sidecar_link_adopted(struct daemon *d, uint64_t version);
void sidecar_link_lost(struct peer *p);

/* peers.c: the control socket. */
enum err peers_start(struct daemon *d) ATTR_MUST_CHECK;
void peers_stop(struct daemon *d);

/* commands.c: what tools may ask. */
void commands_run(struct peer *p, const struct ctl_msg *msg);
void commands_answered(struct daemon *d, const struct ctl_msg *msg);
void commands_forget(struct daemon *d, struct peer *gone);
void commands_sidecar_lost(struct daemon *d);

/* reload.c: options. */
/* World options out of the configuration in force. */
void reload_world_options(const struct daemon *d, struct world_options *out_options);
/* The sidecar sent options: apply what may change now, say what waits for a restart. */
void reload_take_options(struct daemon *d, struct text text);

/* admin.c: probes and metrics. Takes over the listening descriptor. */
enum err admin_create(struct daemon *d, int fd, struct admin **out_admin) ATTR_MUST_CHECK;
void admin_destroy(struct admin *a);

#endif
