/*
 * See signed_set.h: what a store puts and takes away. Promises that what is gone from the store leaves at once. The documents stand on a shelf
 * (signed_shelf), are examined (signed_examine), and compared and put in force (signed_force).
 */
#include "source/signed_set.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "source/signed_set_internal.h"

/* A signature that is none costs as much as one: a store full of them must not hold up beats and commands. Half a second of them. */
#define REFUSED_AT_ONCE 4000

enum err signed_set_create(struct accept *accept, struct ceiling *ceiling, struct signed_set **out_set)
{
	struct signed_set *s = alloc_zeroed(sizeof(*s));
	enum err e;

	if (s == NULL)
		return ERR_NO_MEMORY;
	s->accept = accept;
	s->ceiling = ceiling;
	s->complaint = (struct log_limit){ .burst = 20, .interval_ms = 60000 };
	s->is_match_due = true;
	segment_store_init(&s->store);
	e = signed_shelf_init(&s->shelf);
	if (e != ERR_OK) {
		signed_set_destroy(s);
		return e;
	}
	*out_set = s;
	return ERR_OK;
}

void signed_set_destroy(struct signed_set *s)
{
	struct htab_node *node;

	if (s == NULL)
		return;
	for (size_t i = 0; i < s->shelf.ordered_count; i++)
		segment_store_unuse(&s->store, s->shelf.ordered[i]->segment);
	for (node = htab_next(&s->shelf.rulesets, NULL); node != NULL; node = htab_next(&s->shelf.rulesets, node))
		segment_store_unuse(&s->store, CONTAINER_OF(node, struct signed_ruleset, node)->segment);
	signed_shelf_finish(&s->shelf);
	segment_store_finish(&s->store);
	alloc_free(s->listed);
	alloc_free(s->offered);
	alloc_free(s->offered_rulesets);
	alloc_free(s);
}

/* "l/x" and "r/…": the part behind, and which of them. 0: neither. */
static char split_key(struct text key, struct text *out_rest, uint8_t out_sha256[32])
{
	if (key.len < 3 || key.at[1] != '/')
		return 0;
	*out_rest = (struct text){ key.at + 2, key.len - 2 };
	if (key.at[0] == 'l')
		return lease_doc_id_is_valid(*out_rest) ? 'l' : 0;
	return key.at[0] == 'r' && text_to_bytes_hex(*out_rest, out_sha256, 32) ? 'r' : 0;
}

static bool put_lease(struct signed_set *s, struct text id, struct text bytes)
{
	struct signed_lease *lease = signed_shelf_add_lease(&s->shelf, id);

	if (lease == NULL)
		return false;
	lease->snapshot = s->shelf.snapshot;
	if (lease->put.bytes == NULL && lease->bad.bytes == NULL && lease->good.bytes != NULL && lease->good.len == bytes.len &&
	    memcmp(lease->good.bytes, bytes.at, bytes.len) == 0)
		return true;
	if (!signed_shelf_store(&s->shelf, &lease->put, bytes))
		return false;
	signed_shelf_mark(&s->shelf.pending, &lease->pending);
	return true;
}

static bool put_ruleset(struct signed_set *s, const uint8_t sha256[32], struct text bytes)
{
	struct signed_ruleset *ruleset = signed_shelf_add_ruleset(&s->shelf, sha256);

	if (ruleset == NULL)
		return false;
	ruleset->snapshot = s->shelf.snapshot;
	/* A name says what is in it: once it was right, nothing better can come. */
	if (ruleset->segment != NULL)
		return true;
	if (!signed_shelf_store(&s->shelf, &ruleset->stored, bytes))
		return false;
	signed_shelf_mark(&s->shelf.pending_rulesets, &ruleset->pending);
	return true;
}

void signed_set_put(struct signed_set *s, struct text key, struct text bytes)
{
	uint8_t sha256[32];
	struct text rest;
	bool is_kept = false;

	switch (split_key(key, &rest, sha256)) {
	case 'l':
		is_kept = put_lease(s, rest, bytes);
		break;
	case 'r':
		is_kept = put_ruleset(s, sha256, bytes);
		break;
	default:
		break;
	}
	if (!is_kept)
		s->dropped++;
}

static bool is_empty(const struct signed_lease *lease)
{
	return lease->put.bytes == NULL && lease->good.bytes == NULL && lease->bad.bytes == NULL && lease->segment == NULL;
}

/* Its name is kept until it was told that it is gone. */
static void remove_lease(struct signed_set *s, struct signed_lease *lease)
{
	struct signed_shelf *shelf = &s->shelf;

	signed_force_end(s, lease);
	signed_shelf_drop(shelf, &lease->put);
	signed_shelf_drop(shelf, &lease->good);
	signed_shelf_drop(shelf, &lease->bad);
	list_remove(&shelf->pending, &lease->pending);
	list_remove(&shelf->faulty, &lease->faulty);
	list_remove(&shelf->dirty, &lease->dirty);
	signed_examine_say(s, lease, NULL, NULL, NULL);
	s->is_match_due = true;
	if (!list_node_is_linked(&lease->changed))
		signed_shelf_forget_lease(shelf, lease);
}

/* Compile again who names it: they have less now. */
static void remove_ruleset(struct signed_set *s, struct signed_ruleset *ruleset)
{
	for (size_t i = 0; i < s->shelf.ordered_count && ruleset->segment != NULL; i++) {
		struct signed_lease *lease = s->shelf.ordered[i];

		for (size_t k = 0; k < lease->ruleset_count; k++) {
			if (memcmp(lease->rulesets[k], ruleset->sha256, 32) != 0)
				continue;
			lease->needs_compile = true;
			signed_shelf_mark(&s->shelf.dirty, &lease->dirty);
			s->is_match_due = true;
		}
	}
	segment_store_unuse(&s->store, ruleset->segment);
	signed_shelf_forget_ruleset(&s->shelf, ruleset);
}

void signed_set_del(struct signed_set *s, struct text key)
{
	uint8_t sha256[32];
	struct text rest;
	char kind = split_key(key, &rest, sha256);
	struct signed_lease *lease = kind == 'l' ? signed_shelf_lease(&s->shelf, rest) : NULL;
	struct signed_ruleset *ruleset = kind == 'r' ? signed_shelf_ruleset(&s->shelf, sha256) : NULL;

	if (lease != NULL)
		remove_lease(s, lease);
	if (ruleset != NULL)
		remove_ruleset(s, ruleset);
}

void signed_set_begin(struct signed_set *s)
{
	s->shelf.snapshot++;
}

void signed_set_end(struct signed_set *s)
{
	struct htab_node *node, *next;

	for (size_t i = s->shelf.ordered_count; i-- > 0;)
		if (s->shelf.ordered[i]->snapshot != s->shelf.snapshot)
			remove_lease(s, s->shelf.ordered[i]);
	for (node = htab_next(&s->shelf.rulesets, NULL); node != NULL; node = next) {
		struct signed_ruleset *ruleset = CONTAINER_OF(node, struct signed_ruleset, node);

		next = htab_next(&s->shelf.rulesets, node);
		if (ruleset->snapshot != s->shelf.snapshot)
			remove_ruleset(s, ruleset);
	}
}

/* By another keyset. The bad document came behind the good one, which does not take its place by being good once more. */
static void examine_again(struct signed_set *s, struct signed_lease *lease)
{
	struct stored bad = lease->bad;

	lease->bad = (struct stored){ NULL, 0 };
	if (lease->good.bytes != NULL)
		signed_examine_lease(s, lease, &lease->good);
	if (bad.bytes != NULL)
		signed_examine_lease(s, lease, &bad);
}

void signed_set_examine(struct signed_set *s, bool all)
{
	struct list_node *node;
	size_t refused = 0;

	while ((node = list_pop_front(&s->shelf.pending_rulesets)) != NULL)
		signed_examine_ruleset(s, CONTAINER_OF(node, struct signed_ruleset, pending));
	for (size_t i = 0; all && i < s->shelf.ordered_count; i++)
		examine_again(s, s->shelf.ordered[i]);
	while (refused < REFUSED_AT_ONCE && (node = list_pop_front(&s->shelf.pending)) != NULL) {
		struct signed_lease *lease = CONTAINER_OF(node, struct signed_lease, pending);

		if (!signed_examine_lease(s, lease, &lease->put))
			refused++;
	}
}

void signed_set_recompile(struct signed_set *s)
{
	for (size_t i = 0; i < s->shelf.ordered_count; i++) {
		s->shelf.ordered[i]->needs_compile = true;
		signed_shelf_mark(&s->shelf.dirty, &s->shelf.ordered[i]->dirty);
	}
	s->is_match_due = true;
	s->is_frame_changed = true;
}

void signed_set_taken(struct signed_set *s, uint64_t receipt)
{
	struct list_node *node;

	s->receipt = receipt;
	if (receipt == 0)
		return;
	s->is_frame_changed = false;
	while ((node = list_pop_front(&s->shelf.changed)) != NULL) {
		struct signed_lease *lease = CONTAINER_OF(node, struct signed_lease, changed);

		if (is_empty(lease))
			signed_shelf_forget_lease(&s->shelf, lease);
	}
}

bool signed_set_print(const struct signed_set *s, const char *lease, uint8_t out_sha256[32])
{
	const struct signed_lease *found = signed_shelf_lease(&s->shelf, text_of(lease));

	if (found == NULL || found->force == FORCE_NONE)
		return false;
	memcpy(out_sha256, found->compiled_sha256, 32);
	return true;
}

void signed_set_visit_faults(const struct signed_set *s, void (*visit)(void *arg, const struct fault *fault), void *arg)
{
	const struct list_node *node, *next;

	for (const struct fault *f = ceiling_faults(s->ceiling)->first; f != NULL; f = f->next)
		visit(arg, f);
	LIST_FOREACH (node, next, &s->shelf.worded) {
		const struct signed_lease *lease = CONTAINER_OF(node, const struct signed_lease, worded);
		char file[LEASE_DOC_ID_MAX + 3];
		struct fault fault = { .severity = FAULT_ERROR, .code = lease->words->code, .text = lease->words->why };

		snprintf(file, sizeof(file), "l/%s", lease->id);
		fault.place = (struct fault_place){ .file = file, .pointer = lease->words->pointer };
		visit(arg, &fault);
	}
}

void signed_set_visit_nacks(const struct signed_set *s, void (*visit)(void *arg, const struct signed_nack *nack), void *arg)
{
	const struct list_node *node, *next;

	LIST_FOREACH (node, next, &s->shelf.worded) {
		const struct signed_lease *lease = CONTAINER_OF(node, const struct signed_lease, worded);
		struct signed_nack nack = { lease->id, lease->words->code, lease->words->pointer, lease->good_rev };

		if (lease->bad.bytes != NULL)
			nack.rev = lease->bad_claims ? lease->bad_rev : 0;
		visit(arg, &nack);
	}
}

uint64_t signed_set_dropped(const struct signed_set *s)
{
	return s->dropped;
}
