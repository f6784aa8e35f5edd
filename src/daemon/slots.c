/* Which lease has which slot of the control page. Called by daemon and sidecar_link. */
#include "daemon/slots.h"

#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"

struct given {
	struct htab_node node;
	struct list_node leaving, named;
	uint32_t slot;
	size_t id_len;
	char id[RECORD_LEASE_MAX + 1];
};

static bool given_is(const struct htab_node *node, const void *key)
{
	const struct given *g = CONTAINER_OF(node, struct given, node);
	const struct text *id = key;

	return text_equal((struct text){ .at = g->id, .len = g->id_len }, *id);
}

enum err slots_init(struct slots *s, struct gate *gate)
{
	uint32_t count = gate_slot_count(gate);

	*s = (struct slots){ .gate = gate };
	htab_init(&s->by_id);
	list_init(&s->leaving);
	list_init(&s->named);
	s->free_slots = alloc_array(count, sizeof(*s->free_slots));
	s->since = alloc_array(count, sizeof(*s->since));
	if (s->free_slots == NULL || s->since == NULL)
		return ERR_NO_MEMORY;
	for (uint32_t i = 0; i < count; i++)
		s->since[i] = gate_generation(gate, i);
	for (uint32_t i = count; i > 0; i--)
		s->free_slots[s->free_count++] = i - 1; /* lowest first */
	return crypto_random(&s->key, sizeof(s->key));
}

void slots_finish(struct slots *s)
{
	struct htab_node *n, *next;

	HTAB_FOREACH (n, next, &s->by_id) {
		htab_remove(&s->by_id, n);
		alloc_free(CONTAINER_OF(n, struct given, node));
	}
	htab_finish(&s->by_id);
	alloc_free(s->free_slots);
	alloc_free(s->since);
	s->free_slots = s->since = NULL;
}

static struct given *find(const struct slots *s, struct text id)
{
	struct htab_node *n = htab_find(&s->by_id, hash_bytes(&s->key, id.at, id.len), given_is, &id);

	return n == NULL ? NULL : CONTAINER_OF(n, struct given, node);
}

uint32_t slots_find(const struct slots *s, struct text id)
{
	const struct given *g = find(s, id);

	return g == NULL ? SLOTS_NONE : g->slot;
}

static void join(struct list *list, struct list_node *node)
{
	if (!list_node_is_linked(node))
		list_push_back(list, node);
}

/* A free slot that the page does not call open. */
static uint32_t pick(struct slots *s)
{
	for (uint32_t i = s->free_count; i > 0; i--) {
		uint32_t slot = s->free_slots[i - 1];

		if (gate_slot_state(s->gate, slot) == GATE_SLOT_OPEN)
			continue;
		s->free_slots[i - 1] = s->free_slots[--s->free_count];
		return slot;
	}
	return SLOTS_NONE;
}

uint32_t slots_take(struct slots *s, struct text id)
{
	uint32_t slot = slots_find(s, id);
	struct given *g;

	if (slot != SLOTS_NONE || id.len > RECORD_LEASE_MAX)
		return slot;
	g = alloc_zeroed(sizeof(*g));
	if (g == NULL)
		return SLOTS_NONE;
	g->slot = pick(s);
	g->id_len = id.len;
	memcpy(g->id, id.at, id.len);
	if (g->slot != SLOTS_NONE && htab_insert(&s->by_id, &g->node, hash_bytes(&s->key, id.at, id.len)) == ERR_OK) {
		join(&s->named, &g->named);
		join(&s->leaving, &g->leaving); /* whoever asked for it may fail and leave it behind */
		return g->slot;
	}
	if (g->slot != SLOTS_NONE)
		s->free_slots[s->free_count++] = g->slot;
	alloc_free(g);
	return SLOTS_NONE;
}

void slots_leave(struct slots *s, struct text id)
{
	struct given *g = find(s, id);

	if (g != NULL)
		join(&s->leaving, &g->leaving);
}

size_t slots_sweep(struct slots *s, slots_gone_fn *is_gone, void *arg)
{
	struct list_node *n;
	size_t count = 0;

	while ((n = list_pop_front(&s->leaving)) != NULL) {
		struct given *g = CONTAINER_OF(n, struct given, leaving);

		if (!is_gone(arg, (struct text){ .at = g->id, .len = g->id_len }))
			continue;
		s->since[g->slot] = gate_next_generation(s->gate, g->slot);
		list_remove(&s->named, &g->named);
		htab_remove(&s->by_id, &g->node);
		s->free_slots[s->free_count++] = g->slot;
		alloc_free(g);
		count++;
	}
	return count;
}

bool slots_is_about(const struct slots *s, uint32_t slot, uint64_t generation)
{
	uint32_t now = gate_generation(s->gate, slot);

	/* They may wrap around. */
	return generation <= UINT32_MAX && now - (uint32_t)generation <= now - s->since[slot];
}

size_t slots_count(const struct slots *s)
{
	return s->by_id.count;
}

void slots_visit(const struct slots *s, slots_visit_fn *visit, void *arg)
{
	struct htab_node *n;

	for (n = htab_next(&s->by_id, NULL); n != NULL; n = htab_next(&s->by_id, n)) {
		struct given *g = CONTAINER_OF(n, struct given, node);

		visit(arg, (struct text){ .at = g->id, .len = g->id_len }, g->slot);
	}
}

void slots_name(struct slots *s, struct text id)
{
	struct given *g = find(s, id);

	if (g != NULL)
		join(&s->named, &g->named);
}

void slots_name_all(struct slots *s)
{
	s->all_named = true;
}

void slots_visit_named(struct slots *s, slots_visit_fn *visit, void *arg)
{
	struct list_node *n;

	if (s->all_named)
		slots_visit(s, visit, arg);
	while ((n = list_pop_front(&s->named)) != NULL) {
		struct given *g = CONTAINER_OF(n, struct given, named);

		if (!s->all_named)
			visit(arg, (struct text){ .at = g->id, .len = g->id_len }, g->slot);
	}
	s->all_named = false;
}
