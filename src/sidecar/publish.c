/*
 * Holding to daemon: its life, its daemons, their answers, and what may be asked of it. Promises that a new daemon gets everything again
 * and that one root is under way at a time. How a holding is taken, shipped and shown stands in publish_offer, publish_ship, publish_slots.
 */
#include "sidecar/publish.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "sidecar/publish_internal.h"
#include "wire/ctl_msg.h"

#define RETRY_NS 1000000000ULL

enum err publish_create(const struct publish_events *events, void *arg, struct publish **out_publish)
{
	struct publish *p = alloc_zeroed(sizeof(*p));
	enum err e;

	if (p == NULL)
		return ERR_NO_MEMORY;
	p->events = events;
	p->arg = arg;
	p->complaint = (struct log_limit){ .burst = 5, .interval_ms = 60000 };
	segment_store_init(&p->store);
	e = lease_book_init(&p->book);
	if (e != ERR_OK) {
		publish_destroy(p);
		return e;
	}
	*out_publish = p;
	return ERR_OK;
}

static void forget_frame(struct publish *p, struct publish_frame *frame)
{
	segment_store_unuse(&p->store, frame->ceiling);
	*frame = (struct publish_frame){ NULL, 0 };
}

/* What this daemon was told and had is of no use for the next. */
static void forget_daemon(struct publish *p)
{
	struct lease_entry *entry, *next;

	publish_ship_abort(p);
	segment_store_unhold(&p->store, p->adopted.ceiling);
	p->adopted = (struct publish_frame){ NULL, 0 };
	p->adopted_version = p->base = 0;
	for (entry = lease_book_next(&p->book, NULL); entry != NULL; entry = next) {
		struct stored_segment *before = entry->adopted;
		bool awaits = entry->awaits_revoked;

		next = lease_book_next(&p->book, entry);
		publish_slots_drop(p, entry);
		entry->adopted = NULL;
		entry->awaits_revoked = entry->owes_word = false;
		segment_store_unhold(&p->store, before);
		lease_book_note_adopted(&p->book, entry);
		if (awaits)
			p->events->on_revoked(p->arg, entry->id, false, 0);
		lease_book_tidy(&p->book, entry);
	}
	alloc_free(p->by_slot);
	p->by_slot = NULL;
	p->slot_count = 0;
}

void publish_destroy(struct publish *p)
{
	struct lease_entry *entry;

	if (p == NULL)
		return;
	forget_daemon(p);
	forget_frame(p, &p->wanted);
	for (entry = lease_book_next(&p->book, NULL); entry != NULL; entry = lease_book_next(&p->book, entry))
		segment_store_unuse(&p->store, lease_book_want(&p->book, entry, NULL));
	lease_book_finish(&p->book);
	segment_store_finish(&p->store);
	emitted_finish(&p->root);
	alloc_free(p);
}

void publish_connect(struct publish *p, struct channel *channel, struct gate *gate, uint64_t adopted_version)
{
	publish_disconnect(p);
	p->slot_count = gate_slot_count(gate);
	p->by_slot = alloc_array(p->slot_count, sizeof(struct lease_entry *));
	if (p->by_slot == NULL)
		p->slot_count = 0;
	p->channel = channel;
	p->gate = gate;
	if (p->version < adopted_version)
		p->version = adopted_version;
	p->retry_at_ns = 0;
	publish_ship(p);
}

void publish_disconnect(struct publish *p)
{
	p->channel = NULL;
	p->gate = NULL;
	forget_daemon(p);
}

bool publish_on_ack(struct publish *p, uint64_t version)
{
	if (p->step != PUBLISH_AWAITING || version != p->version)
		return false;
	publish_ship_land(p);
	if (publish_is_adopted(p))
		p->events->on_adopted(p->arg);
	else
		publish_ship(p);
	return true;
}

bool publish_on_nack(struct publish *p, uint64_t version, struct text why)
{
	bool is_base = p->shipped_base != 0 && text_is(why, CTL_NACK_BASE);

	if (p->step != PUBLISH_AWAITING || version != p->version)
		return false;
	/* What it kept of the refused one is not known, nor what it would build on. */
	publish_ship_abort(p);
	p->base = 0;
	if (is_base) {
		log_limited(&p->complaint, LOG_LEVEL_WARN, "policy_sent_whole version=%llu why=\"its base was not held\"",
			    (unsigned long long)version);
		publish_ship(p);
		return true;
	}
	p->retry_at_ns = clock_mono_ns() + RETRY_NS;
	p->events->on_refused(p->arg, version, why);
	return true;
}

enum err publish_set_by_hand(struct publish *p, const char *lease, bool is_revoked, bool *out_awaits)
{
	struct lease_entry *entry = is_revoked ? lease_book_find_or_add(&p->book, lease) : lease_book_find(&p->book, lease);
	bool awaits = false;

	if (entry == NULL && is_revoked)
		return ERR_NO_MEMORY;
	if (entry != NULL) {
		lease_book_set_by_hand(&p->book, entry, is_revoked);
		/* Who asks a second time waits for the same answer. */
		awaits = publish_slots_enforce(p, entry) || entry->awaits_revoked;
		entry->awaits_revoked = awaits;
		/* Without a new root nothing else would open it again. */
		if (!is_revoked)
			publish_slots_settle(p, entry);
		lease_book_tidy(&p->book, entry);
	}
	*out_awaits = awaits;
	return ERR_OK;
}

void publish_set_time(struct publish *p, uint64_t wall_ms, uint64_t mono_ns)
{
	lease_book_set_time(&p->book, wall_ms, mono_ns);
}

void publish_tick(struct publish *p)
{
	struct lease_entry *entry;

	lease_book_expire_all(&p->book);
	for (entry = lease_book_next(&p->book, NULL); entry != NULL; entry = lease_book_next(&p->book, entry))
		publish_slots_enforce(p, entry);
	if (p->step == PUBLISH_IDLE)
		publish_ship(p);
}

bool publish_find(const struct publish *p, const char *lease, uint64_t *out_rev)
{
	const struct lease_entry *entry = lease_book_find(&p->book, lease);

	if (entry == NULL || entry->wanted == NULL)
		return false;
	*out_rev = entry->wanted->lease.rev;
	return true;
}

void publish_count(const struct publish *p, struct publish_counts *out_counts)
{
	const size_t *counts = p->book.counts;

	*out_counts = (struct publish_counts){
		.active = counts[GATE_SLOT_OPEN],
		.suspended = counts[GATE_SLOT_SUSPENDED],
		.revoked = counts[GATE_SLOT_REVOKED] + counts[GATE_SLOT_EXPIRED],
		.quarantined = counts[GATE_SLOT_INVALID],
		.version = p->adopted_version,
		.soonest_expiry_ms = p->book.soonest_expiry_ms,
	};
}

uint64_t publish_listeners_serial(const struct publish *p)
{
	return p->book.listeners_serial;
}

void publish_visit_listeners(const struct publish *p, publish_listener_fn *visit, void *arg)
{
	const struct lease_entry *entry;

	for (entry = lease_book_next(&p->book, NULL); entry != NULL; entry = lease_book_next(&p->book, entry)) {
		if (entry->wanted != NULL && entry->wanted->lease.listener[0] != '\0')
			visit(arg, text_of(entry->wanted->lease.listener));
	}
}
