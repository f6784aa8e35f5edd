/*
 * Brings a holding to the daemon: ships the segments it lacks and a root of what differs, awaits the acknowledgement, writes slot states, revokes before
 * anything narrower is adopted. One root is under way at a time; the newest holding wins. Knows no source and no document.
 */
#ifndef EGRESS_SIDECAR_PUBLISH_H
#define EGRESS_SIDECAR_PUBLISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "control/channel.h"
#include "decision/reason.h"
#include "lease/gate.h"
#include "source/holding.h"

struct publish;

struct publish_events {
	/* Every worker adopted the newest holding; the states are written. */
	void (*on_adopted)(void *arg);
	/* The daemon refused a version (static or borrowed text); it is tried again. */
	void (*on_refused)(void *arg, uint64_t version, struct text why);
	/* The sessions of a lease that was revoked by hand are closed (or the daemon went away: `is_known` false). */
	void (*on_revoked)(void *arg, const char *lease, bool is_known, uint64_t closed);
};

enum err publish_create(const struct publish_events *events, void *arg, struct publish **out_publish) ATTR_MUST_CHECK;
/* Accepts NULL. */
void publish_destroy(struct publish *p);

/* A daemon said WELCOME: both are borrowed until publish_disconnect. Nothing is written to the page before the first ACK but revocations. */
void publish_connect(struct publish *p, struct channel *channel, struct gate *gate, uint64_t adopted_version);
void publish_disconnect(struct publish *p);
/* Messages of the daemon. False: it broke the protocol. */
bool publish_on_slots(struct publish *p, uint64_t version, struct text lines) ATTR_MUST_CHECK;
bool publish_on_ack(struct publish *p, uint64_t version) ATTR_MUST_CHECK;
bool publish_on_nack(struct publish *p, uint64_t version, struct text why) ATTR_MUST_CHECK;
void publish_on_revoked(struct publish *p, uint64_t slot, uint64_t generation, uint64_t closed);
/* The channel's queue ran empty. */
void publish_on_drained(struct publish *p);

/*
 * This is what is held now; all of it is kept. What is no longer in force is revoked before this returns. INVALID when a segment does not
 * verify, NOT_FOUND when its base is not the receipt given last, NO_MEMORY: then nothing changed but that the newest holding counts as not
 * adopted until the next offer, which must be complete. Costs what `leases` holds, and does not grow with what else is held.
 */
enum err publish_offer(struct publish *p, const struct holding *holding, uint64_t *out_receipt) ATTR_MUST_CHECK;
/* Is the newest holding adopted by the connected daemon? */
bool publish_is_adopted(const struct publish *p);
/* At `mono_ns` it was at least `wall_ms`: leases end by this time when the wall clock is behind it. */
void publish_set_time(struct publish *p, uint64_t wall_ms, uint64_t mono_ns);
/* Revoke leases whose time is over (wall or monotonic, whichever comes first); try a refused version again. Call each second. */
void publish_tick(struct publish *p);

/* The revision of a lease in the newest holding (0: it says none); false if it is not there. */
bool publish_find(const struct publish *p, const char *lease, uint64_t *out_rev);
/*
 * Revoke by hand, or take that back; remembered also for a lease that is not known yet. True in *out_awaits: the daemon was told to close
 * its sessions, and on_revoked follows.
 */
enum err publish_set_by_hand(struct publish *p, const char *lease, bool is_revoked, bool *out_awaits) ATTR_MUST_CHECK;

struct publish_counts {
	size_t active, suspended, revoked, quarantined;
	uint64_t version;          /* adopted */
	uint64_t soonest_expiry_ms; /* wall time, as of the last tick; 0: none */
};
void publish_count(const struct publish *p, struct publish_counts *out_counts);
/* Another number whenever the listener names may be others than before. */
uint64_t publish_listeners_serial(const struct publish *p);
/* Visit the listener names of the leases in the newest holding; the same name may come more than once. */
typedef void publish_listener_fn(void *arg, struct text listener);
void publish_visit_listeners(const struct publish *p, publish_listener_fn *visit, void *arg);

#endif
