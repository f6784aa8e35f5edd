/*
 * What of a signed set is in force. Promises that nothing is that no manifest named, that a lease is compiled once for each document, ceiling and
 * ruleset that it hangs on, and that only comparing with a manifest looks at every lease. Called by signed_set.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/sink.h"
#include "compiler/parse.h"
#include "source/signed_set_internal.h"

#define AHEAD 8 /* leases whose memory is asked for before it is read */

void signed_force_end(struct signed_set *s, struct signed_lease *lease)
{
	lease->force = FORCE_NONE;
	list_remove(&s->shelf.less, &lease->less);
	if (lease->segment == NULL)
		return;
	segment_store_unuse(&s->store, lease->segment);
	lease->segment = NULL;
	signed_shelf_mark(&s->shelf.changed, &lease->changed);
}

static bool segment_for(void *arg, const uint8_t sha256[32], struct layout_id *out_segment)
{
	const struct signed_set *s = arg;
	const struct signed_ruleset *ruleset = signed_shelf_ruleset(&s->shelf, sha256);

	if (ruleset == NULL || ruleset->segment == NULL)
		return false;
	memcpy(out_segment->bytes, ruleset->segment->body.id, LAYOUT_ID_LEN);
	return true;
}

/* Its guests are told what is wrong when the document, signed but faulty, says how they arrive. */
static enum err quarantine(const struct signed_set *s, const struct signed_lease *lease, enum force next, struct emitted *out_segment)
{
	const struct stored *stored = next == FORCE_GOOD ? &lease->good : &lease->bad;
	bool is_signed = next == FORCE_GOOD || lease->bad_result == ACCEPT_SCHEMA;
	struct policy *policy = NULL;
	struct json_faults json_faults;
	struct fault_list faults;
	struct envelope envelope;
	struct lease_doc doc;
	struct arena arena;
	enum err e = ERR_OK;

	arena_init(&arena, 0);
	json_faults_init(&json_faults, &arena);
	fault_list_init(&faults, &arena);
	if (is_signed && envelope_read((struct text){ stored->bytes, stored->len }, &envelope) == ENVELOPE_GOOD &&
	    lease_doc_arrival(envelope.payload, &json_faults, &doc) && strcmp(doc.lease, lease->id) == 0)
		e = parse_lease_doc(&arena, lease->id, &doc, ceiling_is_report_allowed(s->ceiling), &faults, &policy);
	if (e != ERR_NO_MEMORY)
		e = emit_quarantined(lease->id, e == ERR_OK ? policy : NULL, out_segment);
	arena_finish(&arena);
	return e;
}

static void say_first_error(struct signed_set *s, struct signed_lease *lease, const struct fault *first)
{
	while (first->next != NULL && first->severity != FAULT_ERROR)
		first = first->next;
	signed_examine_say(s, lease, first->code, first->place.pointer, first->text);
	log_limited(&s->complaint, LOG_LEVEL_WARN, "lease_quarantined key=l/%s code=%s pointer=%s why=\"%s\"", lease->id, first->code,
		    first->place.pointer == NULL ? "" : first->place.pointer, first->text);
}

/* The good document, read once more: what is kept of it is its bytes. */
static enum err compile_good(struct signed_set *s, struct signed_lease *lease, struct emitted *out_segment)
{
	struct compile_bench *bench = ceiling_bench(s->ceiling);
	struct compiled compiled = { .is_quarantined = false };
	struct json_faults json_faults;
	struct fault_list faults;
	struct envelope envelope;
	struct lease_doc doc;
	struct arena arena;
	enum err e = ERR_INVALID;

	if (bench == NULL)
		return ERR_NO_MEMORY;
	arena_init(&arena, 0);
	json_faults_init(&json_faults, &arena);
	fault_list_init(&faults, &arena);
	if (envelope_read((struct text){ lease->good.bytes, lease->good.len }, &envelope) == ENVELOPE_GOOD)
		e = lease_doc_read(envelope.payload, LEASE_DOC_SIGNED, &json_faults, &doc);
	if (e == ERR_OK)
		e = compile_bench_lease_doc(bench, lease->id, &doc, segment_for, s, &faults, &compiled);
	if (e == ERR_OK && compiled.is_quarantined && faults.first != NULL)
		say_first_error(s, lease, faults.first);
	arena_finish(&arena);
	if (e == ERR_OK)
		*out_segment = compiled.lease;
	return e;
}

/* The rulesets that a segment of our own names. */
static const struct layout_id *rulesets_of(const struct emitted *segment, size_t *out_count)
{
	const struct layout_header *header = (const void *)segment->bytes;

	*out_count = header->table[LAYOUT_RULESETS].count;
	return (const void *)(segment->bytes + header->table[LAYOUT_RULESETS].offset);
}

/* Use those that are presets, which no document brings. Returns how many of `ids` were gone through. */
static size_t use_presets(struct signed_set *s, const struct layout_id *ids, size_t count)
{
	const struct compile_bench *bench = ceiling_bench(s->ceiling);
	size_t used = 0;

	for (; used < count; used++) {
		struct stored_segment *stored = segment_store_find(&s->store, ids[used].bytes);
		const struct emitted *preset = NULL;
		bool is_new;

		if (stored != NULL) {
			segment_store_use_more(stored);
			continue;
		}
		if (bench != NULL)
			preset = compile_bench_preset(bench, ids[used].bytes);
		if (preset == NULL || segment_store_use(&s->store, preset, NULL, 0, &is_new, &stored) != ERR_OK)
			break;
	}
	return used;
}

/* The segment is in force from now on. */
static enum err enforce(struct signed_set *s, struct signed_lease *lease, const struct emitted *segment)
{
	struct stored_segment *stored;
	size_t count, used;
	const struct layout_id *ids = rulesets_of(segment, &count);
	enum err e = ERR_NO_MEMORY;
	bool is_new;

	used = use_presets(s, ids, count);
	if (used == count)
		e = segment_store_use(&s->store, segment, ids, count, &is_new, &stored);
	while (used-- > 0)
		segment_store_unuse(&s->store, segment_store_find(&s->store, ids[used].bytes));
	if (e != ERR_OK)
		return e;
	if (stored != lease->segment)
		signed_shelf_mark(&s->shelf.changed, &lease->changed);
	segment_store_unuse(&s->store, lease->segment);
	lease->segment = stored;
	return ERR_OK;
}

static void note_less(struct signed_set *s, struct signed_lease *lease)
{
	struct layout_id unused;

	list_remove(&s->shelf.less, &lease->less);
	for (size_t k = 0; k < lease->ruleset_count && lease->force == FORCE_GOOD; k++)
		if (!segment_for(s, lease->rulesets[k], &unused))
			signed_shelf_mark(&s->shelf.less, &lease->less);
}

/* Make the segment of what the lease shall be. */
static enum err compile_next(struct signed_set *s, struct signed_lease *lease, enum force next)
{
	bool is_good = next == FORCE_GOOD && ceiling_is_sound(s->ceiling);
	struct emitted segment = { .bytes = NULL };
	enum err e;

	if (lease->bad.bytes == NULL)
		signed_examine_say(s, lease, NULL, NULL, NULL);
	e = is_good ? compile_good(s, lease, &segment) : quarantine(s, lease, next, &segment);
	if (e == ERR_OK)
		e = enforce(s, lease, &segment);
	emitted_finish(&segment);
	if (e != ERR_OK)
		return e;
	lease->needs_compile = false;
	lease->force = next;
	memcpy(lease->compiled_sha256, next == FORCE_GOOD ? lease->good_sha256 : lease->bad_sha256, 32);
	note_less(s, lease);
	return ERR_OK;
}

/* What a lease is for a manifest, with the faulty documents counted as what they claim to be or without them. */
static enum force next_of(const struct signed_lease *lease, bool with_bad)
{
	if (with_bad && lease->bad.bytes != NULL && lease->bad_claims)
		return FORCE_QUARANTINED;
	return lease->good.bytes != NULL ? FORCE_GOOD : FORCE_NONE;
}

/* False: it could not be made, and is out of force until it can. */
static bool commit_lease(struct signed_set *s, struct signed_lease *lease, bool with_bad)
{
	enum force next = next_of(lease, with_bad);
	const uint8_t *sha256 = next == FORCE_GOOD ? lease->good_sha256 : lease->bad_sha256;

	if (next == FORCE_NONE) {
		signed_force_end(s, lease);
		return true;
	}
	if (next == lease->force && !lease->needs_compile && memcmp(lease->compiled_sha256, sha256, 32) == 0)
		return true;
	if (compile_next(s, lease, next) == ERR_OK)
		return true;
	signed_force_end(s, lease);
	return false;
}

/* The set is what the manifest says: put it in force, whole. */
static bool commit(struct signed_set *s, bool with_bad)
{
	struct list_node *node, *next;

	LIST_FOREACH (node, next, &s->shelf.faulty)
		if (!commit_lease(s, CONTAINER_OF(node, struct signed_lease, faulty), with_bad))
			return false;
	while ((node = list_first(&s->shelf.dirty)) != NULL) {
		if (!commit_lease(s, CONTAINER_OF(node, struct signed_lease, dirty), with_bad))
			return false;
		list_remove(&s->shelf.dirty, node);
	}
	return true;
}

/* Write what is hashed of a lease, if it counts. */
static void list_lease(struct sink *out, const struct signed_lease *lease, bool with_bad)
{
	enum force next = next_of(lease, with_bad);
	struct manifest_doc_entry entry = { .id = lease->id, .rev = next == FORCE_GOOD ? lease->good_rev : lease->bad_rev };

	if (next == FORCE_NONE)
		return;
	memcpy(entry.sha256, next == FORCE_GOOD ? lease->good_sha256 : lease->bad_sha256, 32);
	manifest_doc_put(out, &entry);
}

/* Is this hash what we hold? The one pass over all leases; most of it is waiting for memory that nobody touched meanwhile. */
static enum err compare(struct signed_set *s, const uint8_t root[32], bool with_bad, bool *out_is_match)
{
	const struct signed_shelf *shelf = &s->shelf;
	struct sink listed = sink_over(s->listed, s->list_room);
	uint8_t ours[32];
	enum err e;

	for (size_t i = 0; i < shelf->ordered_count; i++) {
		if (i + AHEAD < shelf->ordered_count) {
			const struct signed_lease *ahead = shelf->ordered[i + AHEAD];

			__builtin_prefetch(&ahead->good);
			__builtin_prefetch(ahead->good_sha256);
			__builtin_prefetch(ahead->id);
		}
		list_lease(&listed, shelf->ordered[i], with_bad);
	}
	e = sink_ok(&listed) ? crypto_sha256(s->listed, listed.len, ours) : ERR_INVALID;
	if (e == ERR_OK)
		*out_is_match = memcmp(ours, root, 32) == 0;
	return e;
}

static bool make_room(struct signed_set *s)
{
	size_t room = (s->shelf.room + 1) * MANIFEST_DOC_ENTRY_MAX;
	void *larger;

	if (room <= s->list_room)
		return true;
	larger = alloc_resize(s->listed, room, 1);
	if (larger == NULL)
		return false;
	s->listed = larger;
	s->list_room = room;
	return true;
}

bool signed_set_match(struct signed_set *s, const uint8_t root[32])
{
	bool with_bad = true, is_match = false;
	enum err e;

	if (root == NULL)
		return false;
	if (!s->is_match_due && memcmp(root, s->matched, 32) == 0)
		return s->is_match;
	s->is_match = false;
	s->is_match_due = true;
	if (!make_room(s))
		return false;
	signed_shelf_sort(&s->shelf);
	e = compare(s, root, with_bad, &is_match);
	if (e == ERR_OK && !is_match && s->shelf.faulty.count > 0) {
		with_bad = false;
		e = compare(s, root, with_bad, &is_match);
	}
	if (e != ERR_OK || (is_match && !commit(s, with_bad)))
		return false;
	memcpy(s->matched, root, 32);
	s->is_match_due = false;
	s->is_match = is_match;
	return is_match;
}

bool signed_set_is_changed(const struct signed_set *s)
{
	return s->receipt == 0 || s->is_frame_changed || s->shelf.changed.count > 0;
}

static size_t count_rulesets(const struct signed_lease *lease)
{
	return lease->segment == NULL ? 0 : lease->segment->ruleset_count;
}

/* A lease and what it names, for the holding. */
static void gather(const struct signed_set *s, const struct signed_lease *lease, struct holding *holding)
{
	s->offered[holding->lease_count++] = (struct holding_lease){ lease->id, lease->segment == NULL ? NULL : &lease->segment->body };
	for (size_t k = 0; k < count_rulesets(lease); k++)
		s->offered_rulesets[holding->ruleset_count++] = &lease->segment->rulesets[k]->body;
}

/* Walk what a holding names: what changed, or with a complete one all that is in force. NULL begins and ends. */
static const struct signed_lease *next_offered(const struct signed_set *s, size_t *at, const struct list_node **node)
{
	if (s->receipt != 0) {
		*node = *node == NULL ? s->shelf.changed.head.next : (*node)->next;
		return *node == &s->shelf.changed.head ? NULL : CONTAINER_OF(*node, struct signed_lease, changed);
	}
	while (*at < s->shelf.ordered_count && s->shelf.ordered[*at]->segment == NULL)
		(*at)++;
	return *at < s->shelf.ordered_count ? s->shelf.ordered[(*at)++] : NULL;
}

enum err signed_set_holding(struct signed_set *s, struct holding *out_holding)
{
	struct holding holding = { .base = s->receipt,
				   .ceiling = ceiling_segment(s->ceiling),
				   .root_flags = ceiling_is_report_allowed(s->ceiling) ? LAYOUT_ROOT_REPORT_ALLOWED : 0 };
	const struct list_node *node = NULL;
	const struct signed_lease *lease;
	size_t at = 0, count = 0, ruleset_count = 0;

	while ((lease = next_offered(s, &at, &node)) != NULL) {
		count++;
		ruleset_count += count_rulesets(lease);
	}
	alloc_free(s->offered);
	alloc_free(s->offered_rulesets);
	s->offered = alloc_array(count + 1, sizeof(*s->offered));
	s->offered_rulesets = alloc_array(ruleset_count + 1, sizeof(const struct emitted *));
	if (s->offered == NULL || s->offered_rulesets == NULL || holding.ceiling->bytes == NULL)
		return ERR_NO_MEMORY;
	holding.leases = s->offered;
	holding.rulesets = s->offered_rulesets;
	node = NULL;
	at = 0;
	while ((lease = next_offered(s, &at, &node)) != NULL)
		gather(s, lease, &holding);
	*out_holding = holding;
	return ERR_OK;
}
