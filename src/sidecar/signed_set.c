/* See signed_set.h. Each lease has the last document that was good, and the last that was put if it was not. */
#include "sidecar/signed_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "compiler/parse.h"

#define WHY_MAX 200
#define POINTER_MAX 160
#define CODE_MAX 32

/* An envelope as it came. */
struct stored {
	char *bytes; /* owned; NULL: none */
	size_t len;
};

enum force { FORCE_NONE, FORCE_GOOD, FORCE_QUARANTINED };

struct signed_lease {
	char id[LEASE_DOC_ID_MAX + 1];
	bool is_seen;                /* in this snapshot */
	struct stored pending;       /* not examined yet */
	struct stored good, bad;
	uint64_t good_rev, bad_rev;
	uint8_t good_sha256[32], bad_sha256[32];
	bool bad_claims;             /* it is JSON that says a revision */
	enum accept_result bad_result;
	char code[CODE_MAX], pointer[POINTER_MAX], why[WHY_MAX]; /* what is wrong: of bad, or of compiling */

	enum force force, next;      /* now, and when the set matches */
	bool needs_compile;
	uint8_t compiled_sha256[32]; /* payload that the segment was made of */
	struct compiled compiled;    /* of the lease in force */
	uint8_t (*rulesets)[32];     /* owned: documents that it names */
	size_t ruleset_count;
};

struct signed_ruleset {
	uint8_t sha256[32];
	bool is_seen, needs_examine;
	struct stored stored;
	struct emitted segment; /* bytes NULL: not usable */
};

/* Pointers in order. */
struct sorted {
	void **at; /* owned, and what they point to */
	size_t count, room;
};

struct signed_set {
	struct accept *accept;   /* borrowed */
	struct ceiling *ceiling; /* borrowed */
	struct sorted leases;    /* of struct signed_lease, by id */
	struct sorted rulesets;  /* of struct signed_ruleset, by digest */
	uint64_t bytes, dropped;
	bool is_changed, is_examine_due;

	struct holding_lease *offered;         /* owned: of the last holding */
	const struct emitted **offered_rulesets;
	struct log_limit complaint;
};

static struct signed_lease *lease_at(const struct signed_set *s, size_t index)
{
	return s->leases.at[index];
}

static struct signed_ruleset *ruleset_at(const struct signed_set *s, size_t index)
{
	return s->rulesets.at[index];
}

enum err signed_set_create(struct accept *accept, struct ceiling *ceiling, struct signed_set **out_set)
{
	struct signed_set *s = alloc_zeroed(sizeof(*s));

	if (s == NULL)
		return ERR_NO_MEMORY;
	s->accept = accept;
	s->ceiling = ceiling;
	s->complaint = (struct log_limit){ .burst = 20, .interval_ms = 60000 };
	/* An empty set is something to offer too. */
	s->is_changed = true;
	*out_set = s;
	return ERR_OK;
}

static void drop_stored(struct signed_set *s, struct stored *stored)
{
	s->bytes -= stored->len;
	alloc_free(stored->bytes);
	*stored = (struct stored){ NULL, 0 };
}

static void free_lease(struct signed_set *s, struct signed_lease *lease)
{
	drop_stored(s, &lease->pending);
	drop_stored(s, &lease->good);
	drop_stored(s, &lease->bad);
	compiled_finish(&lease->compiled);
	alloc_free(lease->rulesets);
	alloc_free(lease);
}

static void free_ruleset(struct signed_set *s, struct signed_ruleset *ruleset)
{
	drop_stored(s, &ruleset->stored);
	emitted_finish(&ruleset->segment);
	alloc_free(ruleset);
}

void signed_set_destroy(struct signed_set *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->leases.count; i++)
		free_lease(s, lease_at(s, i));
	for (size_t i = 0; i < s->rulesets.count; i++)
		free_ruleset(s, ruleset_at(s, i));
	alloc_free(s->leases.at);
	alloc_free(s->rulesets.at);
	alloc_free(s->offered);
	alloc_free(s->offered_rulesets);
	alloc_free(s);
}

/* Where `id` is or belongs. */
static size_t find_lease(const struct signed_set *s, struct text id, bool *out_is_there)
{
	size_t low = 0, high = s->leases.count;

	*out_is_there = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const char *there = lease_at(s, middle)->id;
		int order = strncmp(there, id.at, id.len);

		if (order == 0 && there[id.len] != '\0')
			order = 1;
		if (order == 0) {
			*out_is_there = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static size_t find_ruleset(const struct signed_set *s, const uint8_t sha256[32], bool *out_is_there)
{
	size_t low = 0, high = s->rulesets.count;

	*out_is_there = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = memcmp(ruleset_at(s, middle)->sha256, sha256, 32);

		if (order == 0) {
			*out_is_there = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Room for one more at `at`. */
static bool open_gap(struct sorted *sorted, size_t at)
{
	if (sorted->count == sorted->room) {
		size_t room = sorted->room == 0 ? 64 : 2 * sorted->room;
		void **larger = alloc_resize(sorted->at, room, sizeof(void *));

		if (larger == NULL)
			return false;
		sorted->at = larger;
		sorted->room = room;
	}
	memmove(sorted->at + at + 1, sorted->at + at, (sorted->count - at) * sizeof(void *));
	sorted->count++;
	return true;
}

static void close_gap(struct sorted *sorted, size_t at)
{
	sorted->count--;
	memmove(sorted->at + at, sorted->at + at + 1, (sorted->count - at) * sizeof(void *));
}

static struct signed_lease *lease_for(struct signed_set *s, struct text id)
{
	bool is_there;
	size_t at = find_lease(s, id, &is_there);
	struct signed_lease *lease;

	if (is_there)
		return lease_at(s, at);
	if (s->leases.count == SIGNED_LEASES_MAX || (lease = alloc_zeroed(sizeof(*lease))) == NULL)
		return NULL;
	if (!open_gap(&s->leases, at)) {
		alloc_free(lease);
		return NULL;
	}
	memcpy(lease->id, id.at, id.len);
	s->leases.at[at] = lease;
	return lease;
}

static struct signed_ruleset *ruleset_for(struct signed_set *s, const uint8_t sha256[32])
{
	bool is_there;
	size_t at = find_ruleset(s, sha256, &is_there);
	struct signed_ruleset *ruleset;

	if (is_there)
		return ruleset_at(s, at);
	if (s->rulesets.count == SIGNED_RULESETS_MAX || (ruleset = alloc_zeroed(sizeof(*ruleset))) == NULL)
		return NULL;
	if (!open_gap(&s->rulesets, at)) {
		alloc_free(ruleset);
		return NULL;
	}
	memcpy(ruleset->sha256, sha256, 32);
	s->rulesets.at[at] = ruleset;
	return ruleset;
}

static bool store(struct signed_set *s, struct stored *stored, struct text bytes)
{
	char *copy;

	/* Longer ones are refused for their size as they stand; their bytes are not needed. */
	if (bytes.len > ENVELOPE_MAX)
		bytes.len = ENVELOPE_MAX + 1;
	if (s->bytes + bytes.len > SIGNED_BYTES_MAX || (copy = alloc_copy(bytes.len == 0 ? "" : bytes.at, bytes.len)) == NULL)
		return false;
	drop_stored(s, stored);
	*stored = (struct stored){ copy, bytes.len };
	s->bytes += bytes.len;
	return true;
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
	struct signed_lease *lease = lease_for(s, id);

	if (lease == NULL)
		return false;
	lease->is_seen = true;
	if (lease->pending.bytes == NULL && lease->bad.bytes == NULL && lease->good.bytes != NULL &&
	    lease->good.len == bytes.len && memcmp(lease->good.bytes, bytes.at, bytes.len) == 0)
		return true;
	return store(s, &lease->pending, bytes);
}

static bool put_ruleset(struct signed_set *s, const uint8_t sha256[32], struct text bytes)
{
	struct signed_ruleset *ruleset = ruleset_for(s, sha256);

	if (ruleset == NULL)
		return false;
	ruleset->is_seen = true;
	/* A name says what is in it: once it was right, nothing better can come. */
	if (ruleset->segment.bytes != NULL)
		return true;
	ruleset->needs_examine = true;
	return store(s, &ruleset->stored, bytes);
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
	if (is_kept)
		s->is_examine_due = true;
	else
		s->dropped++;
}

/* Compile again who names a ruleset that came or went. */
static void mark_users(struct signed_set *s, const uint8_t sha256[32])
{
	for (size_t i = 0; i < s->leases.count; i++) {
		struct signed_lease *lease = lease_at(s, i);

		for (size_t k = 0; k < lease->ruleset_count; k++)
			if (memcmp(lease->rulesets[k], sha256, 32) == 0)
				lease->needs_compile = true;
	}
}

static void remove_lease(struct signed_set *s, size_t at)
{
	struct signed_lease *lease = lease_at(s, at);

	s->is_changed = s->is_changed || lease->force != FORCE_NONE;
	close_gap(&s->leases, at);
	free_lease(s, lease);
}

static void remove_ruleset(struct signed_set *s, size_t at)
{
	struct signed_ruleset *ruleset = ruleset_at(s, at);

	mark_users(s, ruleset->sha256);
	close_gap(&s->rulesets, at);
	free_ruleset(s, ruleset);
}

void signed_set_del(struct signed_set *s, struct text key)
{
	uint8_t sha256[32];
	struct text rest;
	char kind = split_key(key, &rest, sha256);
	bool is_there = false;
	size_t at = kind == 'l' ? find_lease(s, rest, &is_there) : kind == 'r' ? find_ruleset(s, sha256, &is_there) : 0;

	if (is_there && kind == 'l')
		remove_lease(s, at);
	else if (is_there)
		remove_ruleset(s, at);
}

void signed_set_begin(struct signed_set *s)
{
	for (size_t i = 0; i < s->leases.count; i++)
		lease_at(s, i)->is_seen = false;
	for (size_t i = 0; i < s->rulesets.count; i++)
		ruleset_at(s, i)->is_seen = false;
}

void signed_set_end(struct signed_set *s)
{
	for (size_t i = s->leases.count; i-- > 0;)
		if (!lease_at(s, i)->is_seen)
			remove_lease(s, i);
	for (size_t i = s->rulesets.count; i-- > 0;)
		if (!ruleset_at(s, i)->is_seen)
			remove_ruleset(s, i);
}

static void say_what(struct signed_lease *lease, const char *code, const char *pointer, const char *why)
{
	snprintf(lease->code, sizeof(lease->code), "%s", code);
	snprintf(lease->pointer, sizeof(lease->pointer), "%s", pointer == NULL ? "" : pointer);
	snprintf(lease->why, sizeof(lease->why), "%s", why);
}

static bool keep_names(struct signed_lease *lease, const struct lease_doc *doc)
{
	uint8_t(*names)[32] = NULL;

	if (doc->ruleset_count > 0) {
		names = alloc_array(doc->ruleset_count, 32);
		if (names == NULL)
			return false;
		memcpy(names, doc->rulesets, doc->ruleset_count * 32);
	}
	alloc_free(lease->rulesets);
	lease->rulesets = names;
	lease->ruleset_count = doc->ruleset_count;
	return true;
}

static void note_bad(struct signed_set *s, struct signed_lease *lease, const struct accept_doc *doc, enum accept_result result)
{
	const struct json_fault *fault = result == ACCEPT_SCHEMA ? doc->faults.first : NULL;

	lease->bad_result = result;
	lease->bad_claims = doc->has_envelope && lease_doc_rev(doc->envelope.payload, &lease->bad_rev);
	memcpy(lease->bad_sha256, doc->sha256, 32);
	say_what(lease, fault == NULL ? accept_result_word(result) : fault->code, fault == NULL ? "" : fault->pointer,
		 fault == NULL ? "the document was not accepted" : fault->text);
	log_limited(&s->complaint, LOG_LEVEL_WARN, "document_refused key=l/%s result=%s code=%s pointer=%s why=\"%s\"", lease->id,
		    accept_result_word(result), lease->code, lease->pointer, lease->why);
}

/* Examine what stands in *from; it becomes the good or the bad document of its lease. */
static void examine_lease(struct signed_set *s, struct signed_lease *lease, struct stored *from)
{
	struct stored taken = *from, *into;
	enum accept_result result;
	struct accept_doc doc;

	*from = (struct stored){ NULL, 0 };
	accept_doc_init(&doc, ENVELOPE_LEASE, lease->id, (struct text){ taken.bytes, taken.len });
	result = accept_examine(s->accept, &doc);
	if (result == ACCEPT_OK && !keep_names(lease, &doc.is.lease))
		result = ACCEPT_NOT_KEPT;
	if (result == ACCEPT_OK) {
		lease->good_rev = doc.is.lease.rev;
		memcpy(lease->good_sha256, doc.sha256, 32);
		drop_stored(s, &lease->bad);
		lease->code[0] = '\0';
	} else {
		note_bad(s, lease, &doc, result);
	}
	into = result == ACCEPT_OK ? &lease->good : &lease->bad;
	drop_stored(s, into);
	*into = taken;
	accept_doc_finish(&doc);
}

static void examine_ruleset(struct signed_set *s, struct signed_ruleset *ruleset)
{
	struct compile_context context = ceiling_context(s->ceiling);
	struct fault_list faults;
	struct accept_doc doc;
	char hex[65];

	ruleset->needs_examine = false;
	text_from_bytes_hex(ruleset->sha256, 32, hex);
	accept_doc_init(&doc, ENVELOPE_RULESET, hex, (struct text){ ruleset->stored.bytes, ruleset->stored.len });
	fault_list_init(&faults, &doc.arena);
	if (accept_examine(s->accept, &doc) != ACCEPT_OK ||
	    compile_ruleset_doc(hex, &doc.is.ruleset, &context, &faults, &ruleset->segment) != ERR_OK) {
		ruleset->segment = (struct emitted){ .bytes = NULL };
		log_limited(&s->complaint, LOG_LEVEL_WARN, "document_refused key=r/%s why=\"%s\"", hex,
			    faults.first == NULL ? "the document was not accepted" : faults.first->text);
	} else {
		mark_users(s, ruleset->sha256);
	}
	accept_doc_finish(&doc);
}

void signed_set_examine(struct signed_set *s, bool all)
{
	if (!all && !s->is_examine_due)
		return;
	s->is_examine_due = false;
	for (size_t i = 0; i < s->rulesets.count; i++)
		if (ruleset_at(s, i)->needs_examine)
			examine_ruleset(s, ruleset_at(s, i));
	for (size_t i = 0; i < s->leases.count; i++) {
		struct signed_lease *lease = lease_at(s, i);

		if (all && lease->good.bytes != NULL)
			examine_lease(s, lease, &lease->good);
		if (lease->pending.bytes != NULL)
			examine_lease(s, lease, &lease->pending);
		else if (all && lease->bad.bytes != NULL)
			examine_lease(s, lease, &lease->bad);
	}
}

void signed_set_recompile(struct signed_set *s)
{
	for (size_t i = 0; i < s->leases.count; i++)
		lease_at(s, i)->needs_compile = true;
	s->is_changed = true;
}

/* Is this hash what we hold, with the faulty documents as they claim to be or without them? Notes what each lease would be. */
static bool try_root(struct signed_set *s, const uint8_t root[32], bool with_bad, struct manifest_doc_entry *entries)
{
	uint8_t ours[32];
	size_t count = 0;

	for (size_t i = 0; i < s->leases.count; i++) {
		struct signed_lease *lease = lease_at(s, i);
		struct manifest_doc_entry *entry = &entries[count];

		lease->next = FORCE_NONE;
		entry->id = lease->id;
		if (with_bad && lease->bad.bytes != NULL && lease->bad_claims) {
			entry->rev = lease->bad_rev;
			memcpy(entry->sha256, lease->bad_sha256, 32);
			lease->next = FORCE_QUARANTINED;
		} else if (lease->good.bytes != NULL) {
			entry->rev = lease->good_rev;
			memcpy(entry->sha256, lease->good_sha256, 32);
			lease->next = FORCE_GOOD;
		}
		count += lease->next != FORCE_NONE;
	}
	return manifest_doc_root(entries, count, ours) == ERR_OK && memcmp(ours, root, 32) == 0;
}

static enum err preset_for(void *arg, const char *name, struct text *out_text)
{
	const struct signed_set *s = arg;

	return ceiling_preset(s->ceiling, name, out_text);
}

static bool segment_for(void *arg, const uint8_t sha256[32], struct layout_id *out_segment)
{
	const struct signed_set *s = arg;
	bool is_there;
	size_t at = find_ruleset(s, sha256, &is_there);

	if (!is_there || ruleset_at(s, at)->segment.bytes == NULL)
		return false;
	memcpy(out_segment->bytes, ruleset_at(s, at)->segment.id, LAYOUT_ID_LEN);
	return true;
}

/* Its guests are told what is wrong when the document, signed but faulty, says how they arrive. */
static enum err quarantine(const struct signed_set *s, struct signed_lease *lease, struct compiled *out_compiled)
{
	const struct stored *stored = lease->next == FORCE_GOOD ? &lease->good : &lease->bad;
	bool is_signed = lease->next == FORCE_GOOD || lease->bad_result == ACCEPT_SCHEMA;
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
		e = parse_lease_doc(&arena, lease->id, &doc, ceiling_context(s->ceiling).report_allowed, &faults, &policy);
	*out_compiled = (struct compiled){ .is_quarantined = true };
	memcpy(out_compiled->id, lease->id, sizeof(out_compiled->id));
	if (e != ERR_NO_MEMORY)
		e = emit_quarantined(lease->id, e == ERR_OK ? policy : NULL, &out_compiled->lease);
	arena_finish(&arena);
	return e;
}

/* The good document, read once more: what is kept of it is its bytes. */
static enum err compile_good(struct signed_set *s, struct signed_lease *lease, struct compiled *out_compiled)
{
	struct compile_context context = ceiling_context(s->ceiling);
	struct json_faults json_faults;
	struct fault_list faults;
	struct envelope envelope;
	struct lease_doc doc;
	struct arena arena;
	enum err e = ERR_INVALID;

	context.preset = preset_for;
	context.ruleset = segment_for;
	context.arg = s;
	arena_init(&arena, 0);
	json_faults_init(&json_faults, &arena);
	fault_list_init(&faults, &arena);
	if (envelope_read((struct text){ lease->good.bytes, lease->good.len }, &envelope) == ENVELOPE_GOOD)
		e = lease_doc_read(envelope.payload, LEASE_DOC_SIGNED, &json_faults, &doc);
	if (e == ERR_OK)
		e = compile_lease_doc(lease->id, &doc, &context, &faults, out_compiled);
	if (e == ERR_OK && out_compiled->is_quarantined && faults.first != NULL) {
		const struct fault *first = faults.first;

		while (first->next != NULL && first->severity != FAULT_ERROR)
			first = first->next;
		say_what(lease, first->code, first->place.pointer, first->text);
		log_limited(&s->complaint, LOG_LEVEL_WARN, "lease_quarantined key=l/%s code=%s pointer=%s why=\"%s\"", lease->id,
			    lease->code, lease->pointer, lease->why);
	}
	arena_finish(&arena);
	return e;
}

/* Make the segment of what the lease shall be. */
static enum err compile_next(struct signed_set *s, struct signed_lease *lease)
{
	bool is_good = lease->next == FORCE_GOOD && ceiling_is_sound(s->ceiling);
	struct compiled compiled = { .is_quarantined = false };
	enum err e;

	if (lease->bad.bytes == NULL)
		lease->code[0] = '\0';
	e = is_good ? compile_good(s, lease, &compiled) : quarantine(s, lease, &compiled);
	if (e != ERR_OK) {
		compiled_finish(&compiled);
		return e;
	}
	compiled_finish(&lease->compiled);
	lease->compiled = compiled;
	lease->needs_compile = false;
	memcpy(lease->compiled_sha256, lease->next == FORCE_GOOD ? lease->good_sha256 : lease->bad_sha256, 32);
	s->is_changed = true;
	return ERR_OK;
}

/* The set is what the manifest says: put it in force, whole. */
static bool commit(struct signed_set *s)
{
	for (size_t i = 0; i < s->leases.count; i++) {
		struct signed_lease *lease = lease_at(s, i);
		const uint8_t *sha256 = lease->next == FORCE_GOOD ? lease->good_sha256 : lease->bad_sha256;

		if (lease->next == FORCE_NONE || (lease->next == lease->force && !lease->needs_compile &&
						  memcmp(lease->compiled_sha256, sha256, 32) == 0))
			continue;
		/* What could not be made is out of force until it can. */
		lease->force = FORCE_NONE;
		if (compile_next(s, lease) != ERR_OK)
			return false;
		lease->force = lease->next;
	}
	for (size_t i = 0; i < s->leases.count; i++) {
		s->is_changed = s->is_changed || lease_at(s, i)->force != lease_at(s, i)->next;
		lease_at(s, i)->force = lease_at(s, i)->next;
	}
	return true;
}

bool signed_set_match(struct signed_set *s, const uint8_t root[32])
{
	struct manifest_doc_entry *entries;
	bool is_match;

	if (root == NULL)
		return false;
	entries = alloc_array(s->leases.count + 1, sizeof(*entries));
	if (entries == NULL)
		return false;
	is_match = try_root(s, root, true, entries) || try_root(s, root, false, entries);
	alloc_free(entries);
	return is_match && commit(s);
}

bool signed_set_is_changed(const struct signed_set *s)
{
	return s->is_changed;
}

static int by_segment_id(const void *a, const void *b)
{
	const struct emitted *const *x = a, *const *y = b;

	return memcmp((*x)->id, (*y)->id, LAYOUT_ID_LEN);
}

/* All rulesets that anybody in force may name, each once. */
static size_t gather_rulesets(const struct signed_set *s, const struct emitted **rulesets)
{
	size_t count = 0, kept = 0;

	for (size_t i = 0; i < s->rulesets.count; i++)
		if (ruleset_at(s, i)->segment.bytes != NULL)
			rulesets[count++] = &ruleset_at(s, i)->segment;
	for (size_t i = 0; i < s->leases.count; i++)
		for (size_t k = 0; lease_at(s, i)->force != FORCE_NONE && k < lease_at(s, i)->compiled.ruleset_count; k++)
			rulesets[count++] = &lease_at(s, i)->compiled.rulesets[k];
	qsort(rulesets, count, sizeof(*rulesets), by_segment_id);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || by_segment_id(&rulesets[kept - 1], &rulesets[i]) != 0)
			rulesets[kept++] = rulesets[i];
	return kept;
}

enum err signed_set_holding(struct signed_set *s, struct holding *out_holding)
{
	struct compile_context context = ceiling_context(s->ceiling);
	size_t count = 0, ruleset_room = s->rulesets.count;

	for (size_t i = 0; i < s->leases.count; i++)
		ruleset_room += lease_at(s, i)->compiled.ruleset_count;
	alloc_free(s->offered);
	alloc_free(s->offered_rulesets);
	s->offered = alloc_array(s->leases.count + 1, sizeof(*s->offered));
	s->offered_rulesets = alloc_array(ruleset_room + 1, sizeof(const struct emitted *));
	if (s->offered == NULL || s->offered_rulesets == NULL || ceiling_segment(s->ceiling)->bytes == NULL)
		return ERR_NO_MEMORY;
	for (size_t i = 0; i < s->leases.count; i++)
		if (lease_at(s, i)->force != FORCE_NONE)
			s->offered[count++] = (struct holding_lease){ lease_at(s, i)->id, &lease_at(s, i)->compiled.lease };
	*out_holding = (struct holding){ 0,
					 s->offered,
					 count,
					 s->offered_rulesets,
					 gather_rulesets(s, s->offered_rulesets),
					 ceiling_segment(s->ceiling),
					 context.report_allowed ? LAYOUT_ROOT_REPORT_ALLOWED : 0 };
	return ERR_OK;
}

void signed_set_taken(struct signed_set *s)
{
	s->is_changed = false;
}

bool signed_set_print(const struct signed_set *s, const char *lease, uint8_t out_sha256[32])
{
	bool is_there;
	size_t at = find_lease(s, text_of(lease), &is_there);

	if (!is_there || lease_at(s, at)->force == FORCE_NONE)
		return false;
	memcpy(out_sha256, lease_at(s, at)->compiled_sha256, 32);
	return true;
}

void signed_set_visit_faults(const struct signed_set *s, void (*visit)(void *arg, const struct fault *fault), void *arg)
{
	for (const struct fault *f = ceiling_faults(s->ceiling)->first; f != NULL; f = f->next)
		visit(arg, f);
	for (size_t i = 0; i < s->leases.count; i++) {
		const struct signed_lease *lease = lease_at(s, i);
		char file[LEASE_DOC_ID_MAX + 3];
		struct fault fault = { .severity = FAULT_ERROR, .code = lease->code, .text = lease->why };

		if (lease->code[0] == '\0')
			continue;
		snprintf(file, sizeof(file), "l/%s", lease->id);
		fault.place = (struct fault_place){ .file = file, .pointer = lease->pointer };
		visit(arg, &fault);
	}
}

void signed_set_visit_nacks(const struct signed_set *s, void (*visit)(void *arg, const struct signed_nack *nack), void *arg)
{
	for (size_t i = 0; i < s->leases.count; i++) {
		const struct signed_lease *lease = lease_at(s, i);
		struct signed_nack nack = { lease->id, lease->code, lease->pointer, lease->good_rev };

		if (lease->code[0] == '\0')
			continue;
		if (lease->bad.bytes != NULL)
			nack.rev = lease->bad_claims ? lease->bad_rev : 0;
		visit(arg, &nack);
	}
}

uint64_t signed_set_dropped(const struct signed_set *s)
{
	return s->dropped;
}
