/*
 * Taking a holding. Promises all or nothing: every segment of it is verified before the first lease changes, and what ends or narrows is
 * shut before anything is sent. After one that could not be taken only a complete one is.
 */
#include <string.h>

#include "image/segment.h"
#include "sidecar/publish_internal.h"

static enum gate_slot_state state_of(uint8_t lease_state)
{
	switch (lease_state) {
	case LAYOUT_LEASE_ACTIVE:
	case LAYOUT_LEASE_RULESET_MISSING: /* the judge has a better word for it */
		return GATE_SLOT_OPEN;
	case LAYOUT_LEASE_SUSPENDED:
		return GATE_SLOT_SUSPENDED;
	case LAYOUT_LEASE_REVOKED:
		return GATE_SLOT_REVOKED;
	default:
		return GATE_SLOT_INVALID;
	}
}

/* What matters here, from bytes that were verified. */
static void read_lease(const struct publish *p, const struct layout_lease *lease, struct stored_segment *stored)
{
	const struct layout_header *header = (const void *)stored->body.bytes;
	const char *strings = (const char *)stored->body.bytes + header->table[LAYOUT_STRINGS].offset;

	stored->lease = (struct stored_lease){
		.state = state_of(lease->state),
		.rev = lease->rev,
		.exp_ms = lease->exp_ms,
		.exp_mono_ns = lease->exp_ms == 0 ? 0 : lease_book_end_ns(&p->book, lease->exp_ms),
		.listener = lease->listener.len == 0 ? "" : strings + lease->listener.offset,
	};
}

/* Verify a lease's segment, as the daemon will, and use it. */
static enum err use_lease(struct publish *p, const struct emitted *emitted, const char *id, struct stored_segment **out_stored)
{
	const struct layout_lease *lease;
	const struct layout_id *rulesets;
	struct segment *segment;
	const char *fault;
	uint32_t ruleset_count;
	bool is_new;
	enum err e = segment_open_bytes(emitted->bytes, emitted->len, &segment, &fault);

	if (e != ERR_OK)
		return e;
	e = ERR_INVALID;
	if (segment_kind(segment) != LAYOUT_LEASE || memcmp(segment_id(segment), emitted->id, LAYOUT_ID_LEN) != 0)
		goto out;
	lease = segment_lease(segment);
	if (!text_is(segment_text(segment, lease->id), id) || lease->listener.len > LEASE_ID_MAX)
		goto out;
	rulesets = segment_table(segment, LAYOUT_RULESETS, &ruleset_count);
	e = segment_store_use(&p->store, emitted, rulesets, ruleset_count, &is_new, out_stored);
	if (e == ERR_OK && is_new)
		read_lease(p, lease, *out_stored);
out:
	segment_unref(segment);
	return e;
}

static enum err stage_lease(struct publish *p, const struct holding_lease *lease, bool is_complete)
{
	struct lease_entry *entry = lease_book_find_or_add(&p->book, lease->id);

	if (entry == NULL)
		return ERR_NO_MEMORY;
	if (list_node_is_linked(&entry->staged))
		return ERR_INVALID;
	list_push_back(&p->book.staged, &entry->staged);
	if (lease->segment == NULL)
		return is_complete ? ERR_INVALID : ERR_OK;
	if (entry->wanted == NULL || memcmp(entry->wanted->body.id, lease->segment->id, LAYOUT_ID_LEN) != 0)
		return use_lease(p, lease->segment, lease->id, &entry->offered);
	segment_store_use_more(entry->wanted);
	entry->offered = entry->wanted;
	return ERR_OK;
}

/* Rulesets are used by the leases that name them; until these are read the offer itself does. Returns how many it uses. */
static enum err stage_rulesets(struct publish *p, const struct holding *holding, size_t *used)
{
	enum err e = ERR_OK;

	for (*used = 0; *used < holding->ruleset_count; (*used)++) {
		struct stored_segment *stored;
		bool is_new;

		e = segment_store_use(&p->store, holding->rulesets[*used], NULL, 0, &is_new, &stored);
		if (e != ERR_OK)
			break;
	}
	return e;
}

static void unuse_rulesets(struct publish *p, const struct holding *holding, size_t used)
{
	while (used-- > 0)
		segment_store_unuse(&p->store, segment_store_find(&p->store, holding->rulesets[used]->id));
}

static enum err stage(struct publish *p, const struct holding *holding, struct publish_frame *out_frame)
{
	struct stored_segment *ceiling = NULL;
	size_t used = 0;
	bool is_new;
	enum err e = segment_store_use(&p->store, holding->ceiling, NULL, 0, &is_new, &ceiling);

	if (e == ERR_OK)
		e = stage_rulesets(p, holding, &used);
	for (size_t i = 0; i < holding->lease_count && e == ERR_OK; i++)
		e = stage_lease(p, &holding->leases[i], holding->base == 0);
	unuse_rulesets(p, holding, used);
	if (e != ERR_OK) {
		segment_store_unuse(&p->store, ceiling);
		return e;
	}
	*out_frame = (struct publish_frame){ ceiling, holding->root_flags };
	return ERR_OK;
}

/* Nothing of it is wanted. */
static void unstage(struct publish *p)
{
	struct list_node *node;

	while ((node = list_pop_front(&p->book.staged)) != NULL) {
		struct lease_entry *entry = CONTAINER_OF(node, struct lease_entry, staged);

		segment_store_unuse(&p->store, entry->offered);
		entry->offered = NULL;
		lease_book_tidy(&p->book, entry);
	}
}

static void commit(struct publish *p, bool is_complete)
{
	struct list_node *node;

	/* Whom a complete one does not name is gone, also who is only known by a slot. */
	for (struct lease_entry *e = lease_book_next(&p->book, NULL); is_complete && e != NULL; e = lease_book_next(&p->book, e))
		if (!list_node_is_linked(&e->staged))
			list_push_back(&p->book.staged, &e->staged);
	while ((node = list_pop_front(&p->book.staged)) != NULL) {
		struct lease_entry *entry = CONTAINER_OF(node, struct lease_entry, staged);
		struct stored_segment *segment = entry->offered;

		entry->offered = NULL;
		segment_store_unuse(&p->store, lease_book_want(&p->book, entry, segment));
		publish_slots_enforce(p, entry);
		publish_slots_settle(p, entry);
		lease_book_tidy(&p->book, entry);
	}
}

enum err publish_offer(struct publish *p, const struct holding *holding, uint64_t *out_receipt)
{
	struct publish_frame frame;
	enum err e = ERR_NOT_FOUND;

	if (holding->base == 0 || holding->base == p->receipt)
		e = stage(p, holding, &frame);
	if (e != ERR_OK) {
		unstage(p);
		p->is_offer_bad = true;
		p->receipt = 0;
		return e;
	}
	p->is_offer_bad = false;
	p->has_offer = true;
	segment_store_unuse(&p->store, p->wanted.ceiling);
	p->wanted = frame;
	commit(p, holding->base == 0);
	p->receipt = ++p->last_receipt;
	*out_receipt = p->receipt;
	publish_ship(p);
	return ERR_OK;
}
