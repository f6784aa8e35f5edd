/* What the files of publish share: taking a holding, shipping roots, the slots of the page. */
#ifndef EGRESS_SIDECAR_PUBLISH_INTERNAL_H
#define EGRESS_SIDECAR_PUBLISH_INTERNAL_H

#include "base/log.h"
#include "sidecar/lease_book_internal.h"
#include "sidecar/publish.h"
#include "source/segment_store.h"

/* The rest of a holding. */
struct publish_frame {
	struct stored_segment *ceiling; /* used, or held where it was shipped; NULL: none */
	uint32_t flags;
};

enum publish_step { PUBLISH_IDLE, PUBLISH_SHIPPING, PUBLISH_AWAITING };

struct publish {
	const struct publish_events *events; /* borrowed, static */
	void *arg;                           /* borrowed */
	struct lease_book book;
	struct segment_store store;

	struct channel *channel; /* borrowed; NULL while no daemon is connected */
	struct gate *gate;       /* borrowed, likewise */
	struct lease_entry **by_slot; /* owned array, borrowed members */
	uint32_t slot_count;

	bool has_offer, is_offer_bad;  /* bad: the last one could not be taken, so what is wanted is not the newest */
	uint64_t receipt, last_receipt; /* of what is wanted (0: only a complete holding may come); of the last that was given */
	struct publish_frame wanted, shipped, adopted;
	uint64_t version;         /* of the last root */
	uint64_t adopted_version; /* by this daemon; 0: none */
	uint64_t base;            /* what the next root may build on; 0: nothing, it must be complete */
	uint64_t shipped_base;    /* of the root that is under way */
	enum publish_step step;
	uint64_t retry_at_ns;     /* not before, after a refusal */
	struct emitted root;      /* while shipping */
	struct log_limit complaint;
};

/* Begin with the newest holding, unless a root is under way or it is too early, or nothing differs. */
void publish_ship(struct publish *p);
/* The root under way is none any more. */
void publish_ship_abort(struct publish *p);
/* It was adopted: so is all that it named. */
void publish_ship_land(struct publish *p);

/* Shut a slot that may not stay open: the page first, then the word. True when the daemon was told to close sessions. */
bool publish_slots_enforce(struct publish *p, struct lease_entry *entry);
/* Show what holds now. A slot opens only for the very lease that was adopted. */
void publish_slots_settle(struct publish *p, struct lease_entry *entry);
void publish_slots_drop(struct publish *p, struct lease_entry *entry);

#endif
