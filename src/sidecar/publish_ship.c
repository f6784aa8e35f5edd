/*
 * Roots on their way. Promises that one is under way at a time, that its segments go first, that it names only what differs from what the
 * daemon adopted last (or everything, to a daemon of which that is not known), and that a slow daemon costs few descriptors.
 */
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "image/segment.h"
#include "sidecar/publish_internal.h"

#define RETRY_NS 1000000000ULL

/* This lease's part in the root that is under way is over. */
static void leave(struct publish *p, struct lease_entry *entry)
{
	list_remove(&p->book.under_way, &entry->under_way);
	segment_store_unhold(&p->store, entry->shipped);
	entry->shipped = NULL;
}

static void board(struct publish *p, struct lease_entry *entry)
{
	struct stored_segment *before = entry->shipped;

	segment_store_hold(&p->store, entry->wanted);
	entry->shipped = entry->wanted;
	segment_store_unhold(&p->store, before);
	if (!list_node_is_linked(&entry->under_way))
		list_push_back(&p->book.under_way, &entry->under_way);
}

/* The newest holding is what is under way from here on. A root that was not sent yet gives way; what was sent for it counts on. */
static void board_all(struct publish *p)
{
	struct list_node *node, *next;
	struct stored_segment *ceiling = p->shipped.ceiling;

	p->shipped_base = p->base;
	if (p->base == 0) {
		for (struct lease_entry *e = lease_book_next(&p->book, NULL); e != NULL; e = lease_book_next(&p->book, e))
			board(p, e);
	} else {
		LIST_FOREACH (node, next, &p->book.changed)
			board(p, CONTAINER_OF(node, struct lease_entry, changed));
		LIST_FOREACH (node, next, &p->book.under_way) {
			struct lease_entry *entry = CONTAINER_OF(node, struct lease_entry, under_way);

			if (list_node_is_linked(&entry->changed))
				continue;
			leave(p, entry);
			lease_book_tidy(&p->book, entry);
		}
	}
	segment_store_hold(&p->store, p->wanted.ceiling);
	p->shipped = p->wanted;
	segment_store_unhold(&p->store, ceiling);
}

static enum err emit_shipped_root(struct publish *p)
{
	struct emit_root_lease *leases = alloc_array(p->book.under_way.count + 1, sizeof(*leases));
	struct list_node *node, *next;
	struct layout_id ceiling;
	size_t count = 0;
	enum err e;

	emitted_finish(&p->root);
	p->root = (struct emitted){ 0 };
	if (leases == NULL)
		return ERR_NO_MEMORY;
	LIST_FOREACH (node, next, &p->book.under_way) {
		const struct lease_entry *entry = CONTAINER_OF(node, struct lease_entry, under_way);

		if (entry->shipped == NULL && p->shipped_base == 0)
			continue;
		leases[count].id = entry->id;
		if (entry->shipped != NULL)
			memcpy(leases[count].segment.bytes, entry->shipped->body.id, LAYOUT_ID_LEN);
		count++;
	}
	memcpy(ceiling.bytes, p->shipped.ceiling->body.id, LAYOUT_ID_LEN);
	e = emit_root(p->version, p->shipped_base, &ceiling, p->shipped.flags, leases, count, &p->root);
	alloc_free(leases);
	return e;
}

static enum err send_sealed(struct publish *p, struct ctl_msg *msg, const uint8_t *bytes, size_t len)
{
	int fd;
	enum err e = segment_seal(bytes, len, &fd);

	if (e != ERR_OK)
		return e;
	e = channel_send(p->channel, msg, fd);
	close(fd);
	return e;
}

/* Send until messages begin to queue: each queued one holds a descriptor. */
static enum err send_segments(struct publish *p)
{
	while (channel_queued(p->channel) == 0) {
		struct stored_segment *segment = segment_store_next_unsent(&p->store);
		struct ctl_msg msg = { .type = CTL_SEGMENT };
		enum err e;

		if (segment == NULL)
			return ERR_OK;
		msg.field[0].bytes = (struct text){ (const char *)segment->body.id, LAYOUT_ID_LEN };
		e = send_sealed(p, &msg, segment->body.bytes, segment->body.len);
		if (e != ERR_OK)
			return e;
		segment_store_note_sent(&p->store, segment);
	}
	return ERR_AGAIN;
}

static void put_off(struct publish *p, enum err e)
{
	publish_ship_abort(p);
	p->retry_at_ns = clock_mono_ns() + RETRY_NS;
	log_limited(&p->complaint, LOG_LEVEL_ERROR, "policy_not_sent version=%llu error=\"%s\"", (unsigned long long)p->version,
		    err_text(e));
}

static void go_on(struct publish *p)
{
	struct ctl_msg msg = { .type = CTL_ROOT };
	enum err e = send_segments(p);

	if (e == ERR_AGAIN)
		return;
	if (e == ERR_OK) {
		msg.field[0].number = p->version;
		e = send_sealed(p, &msg, p->root.bytes, p->root.len);
	}
	if (e != ERR_OK) {
		put_off(p, e);
		return;
	}
	emitted_finish(&p->root);
	p->root = (struct emitted){ 0 };
	p->step = PUBLISH_AWAITING;
}

static bool is_up_to_date(const struct publish *p)
{
	return p->adopted_version != 0 && p->book.changed.count == 0 && p->book.under_way.count == 0 && p->step == PUBLISH_IDLE &&
	       p->wanted.ceiling == p->adopted.ceiling && p->wanted.flags == p->adopted.flags;
}

bool publish_is_adopted(const struct publish *p)
{
	return p->channel != NULL && p->has_offer && !p->is_offer_bad && is_up_to_date(p);
}

void publish_ship(struct publish *p)
{
	enum err e;

	if (p->channel == NULL || !p->has_offer || p->step == PUBLISH_AWAITING || is_up_to_date(p) ||
	    clock_mono_ns() < p->retry_at_ns)
		return;
	board_all(p);
	p->version++;
	e = emit_shipped_root(p);
	if (e != ERR_OK) {
		put_off(p, e);
		return;
	}
	p->step = PUBLISH_SHIPPING;
	go_on(p);
}

void publish_ship_abort(struct publish *p)
{
	struct list_node *node;

	p->step = PUBLISH_IDLE;
	while ((node = list_first(&p->book.under_way)) != NULL) {
		struct lease_entry *entry = CONTAINER_OF(node, struct lease_entry, under_way);

		leave(p, entry);
		lease_book_tidy(&p->book, entry);
	}
	segment_store_unhold(&p->store, p->shipped.ceiling);
	p->shipped = (struct publish_frame){ NULL, 0 };
}

static void land(struct publish *p, struct lease_entry *entry)
{
	struct stored_segment *before = entry->adopted;

	list_remove(&p->book.under_way, &entry->under_way);
	entry->adopted = entry->shipped;
	entry->shipped = NULL;
	segment_store_unhold(&p->store, before);
	lease_book_note_adopted(&p->book, entry);
	publish_slots_settle(p, entry);
	/* A lease that is gone keeps no slot: the daemon may give it to another. */
	if (entry->adopted == NULL)
		publish_slots_drop(p, entry);
	lease_book_tidy(&p->book, entry);
}

void publish_ship_land(struct publish *p)
{
	struct list_node *node;

	p->step = PUBLISH_IDLE;
	p->adopted_version = p->base = p->version;
	segment_store_unhold(&p->store, p->adopted.ceiling);
	p->adopted = p->shipped;
	p->shipped = (struct publish_frame){ NULL, 0 };
	while ((node = list_first(&p->book.under_way)) != NULL)
		land(p, CONTAINER_OF(node, struct lease_entry, under_way));
}

void publish_on_drained(struct publish *p)
{
	if (p->step == PUBLISH_SHIPPING)
		go_on(p);
}
