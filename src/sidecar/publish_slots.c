/*
 * Slots of the control page, on the sidecar's side. Promises that the page changes before a word is sent, that a slot opens only for the
 * lease that every worker adopted, and that one which changes hands begins shut. The wording of states is gate.h's.
 */
#include <string.h>

#include "sidecar/publish_internal.h"

static const char *word_of(enum gate_slot_state state)
{
	switch (state) {
	case GATE_SLOT_SUSPENDED:
		return reason_word(REASON_LEASE_SUSPENDED);
	case GATE_SLOT_INVALID:
		return reason_word(REASON_POLICY_INVALID);
	case GATE_SLOT_EXPIRED:
		return reason_word(REASON_LEASE_EXPIRED);
	default:
		return reason_word(REASON_LEASE_REVOKED);
	}
}

bool publish_slots_enforce(struct publish *p, struct lease_entry *entry)
{
	enum gate_slot_state state = lease_book_state(entry), shown;
	struct ctl_msg msg = { .type = CTL_REVOKE };

	if (p->gate == NULL || !p->has_offer || !entry->has_slot || state == GATE_SLOT_OPEN)
		return false;
	shown = gate_slot_state(p->gate, entry->slot);
	if (shown != state)
		gate_set_slot(p->gate, entry->slot, state);
	if (shown != GATE_SLOT_OPEN && !entry->owes_word)
		return false;
	log_line(LOG_LEVEL_INFO, "lease_shut lease=%s reason=%s", entry->id, word_of(state));
	msg.field[0].number = entry->slot;
	msg.field[1].number = entry->generation;
	msg.field[2].bytes = text_of(word_of(state));
	/* If it cannot be said the channel is gone or hopelessly behind; the page stands, and the next tick or daemon is told. */
	entry->owes_word = channel_send(p->channel, &msg, -1) != ERR_OK;
	return !entry->owes_word;
}

void publish_slots_settle(struct publish *p, struct lease_entry *entry)
{
	enum gate_slot_state state = lease_book_state(entry);

	if (p->gate == NULL || !entry->has_slot || entry->adopted == NULL)
		return;
	if (state == GATE_SLOT_OPEN &&
	    (entry->wanted != entry->adopted || (list_node_is_linked(&entry->under_way) && entry->shipped != entry->wanted)))
		return;
	if (gate_slot_state(p->gate, entry->slot) != state)
		gate_set_slot(p->gate, entry->slot, state);
}

void publish_slots_drop(struct publish *p, struct lease_entry *entry)
{
	if (entry->has_slot)
		p->by_slot[entry->slot] = NULL;
	entry->has_slot = false;
}

/*
 * Only the slots told with the greeting come with a state that holds: the predecessor's. A slot that moves from lease to lease later
 * begins shut, as does one that a lease leaves.
 */
static void give_slot(struct publish *p, struct lease_entry *entry, uint32_t slot, uint32_t generation, bool is_greeting)
{
	struct lease_entry *before = p->by_slot[slot];

	if (before == entry) {
		entry->generation = generation;
		return;
	}
	if (before != NULL)
		publish_slots_drop(p, before);
	if (entry->has_slot) {
		p->by_slot[entry->slot] = NULL;
		gate_set_slot(p->gate, entry->slot, GATE_SLOT_CLOSED);
	}
	if ((before != NULL || !is_greeting) && gate_slot_state(p->gate, slot) == GATE_SLOT_OPEN)
		gate_set_slot(p->gate, slot, GATE_SLOT_CLOSED);
	entry->has_slot = true;
	entry->slot = slot;
	entry->generation = generation;
	p->by_slot[slot] = entry;
	if (before != NULL)
		lease_book_tidy(&p->book, before);
}

static bool read_slot(struct publish *p, struct text line, bool is_greeting)
{
	struct text slot = text_take_until(&line, ' '), generation = text_take_until(&line, ' ');
	uint64_t slot_number, generation_number;
	char id[LEASE_ID_MAX + 1];
	struct lease_entry *entry;

	if (p->slot_count == 0 || !text_to_u64(slot, p->slot_count - 1, &slot_number) ||
	    !text_to_u64(generation, UINT32_MAX, &generation_number) || line.len == 0 || line.len > LEASE_ID_MAX)
		return false;
	memcpy(id, line.at, line.len);
	id[line.len] = '\0';
	entry = lease_book_find_or_add(&p->book, id);
	if (entry == NULL)
		return false;
	give_slot(p, entry, (uint32_t)slot_number, (uint32_t)generation_number, is_greeting);
	/* Whoever revoked it may have gone before the word was out, and no root says it. */
	entry->owes_word = entry->owes_word || (is_greeting && entry->by_hand);
	publish_slots_enforce(p, entry);
	return true;
}

bool publish_on_slots(struct publish *p, uint64_t version, struct text lines)
{
	while (lines.len > 0) {
		if (!read_slot(p, text_take_until(&lines, '\n'), version == 0))
			return false;
	}
	return true;
}

void publish_on_revoked(struct publish *p, uint64_t slot, uint64_t generation, uint64_t closed)
{
	struct lease_entry *entry = slot < p->slot_count ? p->by_slot[slot] : NULL;

	if (entry == NULL)
		return;
	/* The daemon counted on; an answer that was overtaken by newer slot lines does not count back. */
	if ((int32_t)((uint32_t)generation - entry->generation) > 0)
		entry->generation = (uint32_t)generation;
	if (!entry->awaits_revoked)
		return;
	entry->awaits_revoked = false;
	p->events->on_revoked(p->arg, entry->id, true, closed);
}
