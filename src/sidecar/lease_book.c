/*
 * The leases of publish. Promises that what differs, what is under way and what there is of each state are at hand without looking at every
 * lease, and that an end that was reached stays reached. Called by publish; knows no daemon.
 */
#include "sidecar/lease_book_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"

#define NS_PER_MS 1000000ULL

static bool has_id(const struct htab_node *node, const void *key)
{
	return strcmp(CONTAINER_OF(node, const struct lease_entry, node)->id, key) == 0;
}

enum err lease_book_init(struct lease_book *b)
{
	*b = (struct lease_book){ .listeners_serial = 1 };
	htab_init(&b->entries);
	list_init(&b->staged);
	list_init(&b->changed);
	list_init(&b->under_way);
	return crypto_random(&b->key, sizeof(b->key));
}

void lease_book_finish(struct lease_book *b)
{
	struct htab_node *node, *next;

	HTAB_FOREACH (node, next, &b->entries) {
		htab_remove(&b->entries, node);
		alloc_free(CONTAINER_OF(node, struct lease_entry, node));
	}
	htab_finish(&b->entries);
}

struct lease_entry *lease_book_next(const struct lease_book *b, const struct lease_entry *before)
{
	struct htab_node *node = htab_next(&b->entries, before == NULL ? NULL : &before->node);

	return node == NULL ? NULL : CONTAINER_OF(node, struct lease_entry, node);
}

struct lease_entry *lease_book_find(const struct lease_book *b, const char *id)
{
	struct htab_node *node = htab_find(&b->entries, hash_bytes(&b->key, id, strlen(id)), has_id, id);

	return node == NULL ? NULL : CONTAINER_OF(node, struct lease_entry, node);
}

struct lease_entry *lease_book_find_or_add(struct lease_book *b, const char *id)
{
	struct lease_entry *entry = lease_book_find(b, id);
	size_t len = strlen(id);

	if (entry != NULL || len == 0 || len > LEASE_ID_MAX)
		return entry;
	entry = alloc_zeroed(sizeof(*entry) + len + 1);
	if (entry == NULL)
		return NULL;
	memcpy(entry->id, id, len);
	if (htab_insert(&b->entries, &entry->node, hash_bytes(&b->key, id, len)) != ERR_OK) {
		alloc_free(entry);
		return NULL;
	}
	return entry;
}

void lease_book_tidy(struct lease_book *b, struct lease_entry *entry)
{
	if (entry->wanted != NULL || entry->adopted != NULL || entry->by_hand || entry->has_slot ||
	    list_node_is_linked(&entry->staged) || list_node_is_linked(&entry->under_way))
		return;
	htab_remove(&b->entries, &entry->node);
	alloc_free(entry);
}

enum gate_slot_state lease_book_state(const struct lease_entry *entry)
{
	if (entry->by_hand || entry->wanted == NULL)
		return GATE_SLOT_REVOKED;
	if (entry->is_expired)
		return GATE_SLOT_EXPIRED;
	return entry->wanted->lease.state;
}

static void note_end(struct lease_book *b, const struct lease_entry *entry)
{
	uint64_t exp_ms = entry->counted == GATE_SLOT_OPEN ? entry->wanted->lease.exp_ms : 0;

	if (exp_ms != 0 && (b->soonest_expiry_ms == 0 || exp_ms < b->soonest_expiry_ms))
		b->soonest_expiry_ms = exp_ms;
}

/* It may be another state than before. */
static void count_again(struct lease_book *b, struct lease_entry *entry)
{
	enum gate_slot_state now = entry->wanted == NULL ? GATE_SLOT_CLOSED : lease_book_state(entry);

	if (entry->counted != GATE_SLOT_CLOSED)
		b->counts[entry->counted]--;
	if (now != GATE_SLOT_CLOSED)
		b->counts[now]++;
	entry->counted = now;
	note_end(b, entry);
}

static void note_difference(struct lease_book *b, struct lease_entry *entry)
{
	if (entry->wanted == entry->adopted)
		list_remove(&b->changed, &entry->changed);
	else if (!list_node_is_linked(&entry->changed))
		list_push_back(&b->changed, &entry->changed);
}

static const char *listener_of(const struct stored_segment *segment)
{
	return segment == NULL ? "" : segment->lease.listener;
}

struct stored_segment *lease_book_want(struct lease_book *b, struct lease_entry *entry, struct stored_segment *segment)
{
	struct stored_segment *before = entry->wanted;

	entry->wanted = segment;
	if (before == segment) {
		lease_book_expire(b, entry);
		return before;
	}
	if (strcmp(listener_of(before), listener_of(segment)) != 0)
		b->listeners_serial++;
	entry->is_expired = false;
	note_difference(b, entry);
	lease_book_expire(b, entry);
	count_again(b, entry);
	return before;
}

void lease_book_note_adopted(struct lease_book *b, struct lease_entry *entry)
{
	note_difference(b, entry);
}

void lease_book_set_by_hand(struct lease_book *b, struct lease_entry *entry, bool is_revoked)
{
	entry->by_hand = is_revoked;
	count_again(b, entry);
}

static void expire_at(struct lease_book *b, struct lease_entry *entry, uint64_t wall_ms, uint64_t mono_ns)
{
	const struct stored_lease *lease = entry->wanted == NULL ? NULL : &entry->wanted->lease;

	if (lease == NULL || lease->exp_ms == 0 || entry->is_expired ||
	    (wall_ms < lease->exp_ms && mono_ns < lease->exp_mono_ns))
		return;
	entry->is_expired = true;
	count_again(b, entry);
}

void lease_book_expire(struct lease_book *b, struct lease_entry *entry)
{
	expire_at(b, entry, lease_book_wall_ms(b), clock_mono_ns());
}

void lease_book_expire_all(struct lease_book *b)
{
	uint64_t wall_ms = lease_book_wall_ms(b), mono_ns = clock_mono_ns();

	b->soonest_expiry_ms = 0;
	for (struct lease_entry *entry = lease_book_next(b, NULL); entry != NULL; entry = lease_book_next(b, entry)) {
		expire_at(b, entry, wall_ms, mono_ns);
		note_end(b, entry);
	}
}

uint64_t lease_book_wall_ms(const struct lease_book *b)
{
	uint64_t wall_ms = clock_wall_ms(), now_ns = clock_mono_ns(), at_least = 0;

	if (b->said_ms != 0 && now_ns >= b->said_ns)
		at_least = b->said_ms + (now_ns - b->said_ns) / NS_PER_MS;
	return wall_ms > at_least ? wall_ms : at_least;
}

void lease_book_set_time(struct lease_book *b, uint64_t wall_ms, uint64_t mono_ns)
{
	uint64_t held_ms = b->said_ms == 0 || mono_ns < b->said_ns ? 0 : b->said_ms + (mono_ns - b->said_ns) / NS_PER_MS;

	/* It never goes back. */
	if (wall_ms <= held_ms)
		return;
	b->said_ms = wall_ms;
	b->said_ns = mono_ns;
}

uint64_t lease_book_end_ns(const struct lease_book *b, uint64_t exp_ms)
{
	uint64_t wall_ms = lease_book_wall_ms(b), left_ms = exp_ms > wall_ms ? exp_ms - wall_ms : 0, now_ns = clock_mono_ns();

	return left_ms > (UINT64_MAX - now_ns) / NS_PER_MS ? UINT64_MAX : now_ns + left_ms * NS_PER_MS;
}
