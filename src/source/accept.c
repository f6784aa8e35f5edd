/*
 * The checks as a table, walked from its first row; see accept.h. A keyset must be signed by the threshold of the root that we hold and by
 * that of the root that it brings, so that nobody can hand over to keys that are not there.
 */
#include "source/accept.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"

#define NS_PER_MS 1000000ULL

struct accept {
	char cell[LEASE_DOC_ID_MAX + 1];
	unsigned group;
	struct floors *floors;      /* borrowed */
	uint64_t refuse_after_ms;
	uint8_t anchor[32];
	struct arena root_arena;    /* owns the ids of anchor_root */
	struct keyset_doc_root anchor_root;
	struct arena keyset_arena;  /* owns what is in keyset */
	struct keyset_doc keyset;   /* version 0: none yet */
	uint64_t said_ms, said_ns;  /* control's clock at the last beat, and ours then */
	uint64_t counts[ENVELOPE_TYPE_COUNT][ACCEPT_RESULT_COUNT];
};

enum err accept_create(const struct accept_options *options, struct json_faults *faults, struct accept **out_accept)
{
	struct accept *a = alloc_zeroed(sizeof(*a));
	struct json_faults ours;
	enum err e;

	if (a == NULL)
		return ERR_NO_MEMORY;
	arena_init(&a->root_arena, 0);
	arena_init(&a->keyset_arena, 0);
	memcpy(a->cell, options->cell, strnlen(options->cell, LEASE_DOC_ID_MAX));
	a->group = options->group;
	a->floors = options->floors;
	a->refuse_after_ms = options->refuse_after_ms;
	json_faults_init(&ours, &a->root_arena);
	e = keyset_doc_root_read(options->root, &ours, &a->anchor_root);
	for (const struct json_fault *f = ours.first; f != NULL; f = f->next)
		json_fault_add(faults, f->pointer, f->code, "%s", f->text);
	if (e == ERR_OK)
		e = crypto_sha256(options->root.at, options->root.len, a->anchor);
	if (e != ERR_OK) {
		accept_destroy(a);
		return e;
	}
	*out_accept = a;
	return ERR_OK;
}

void accept_destroy(struct accept *a)
{
	if (a == NULL)
		return;
	arena_finish(&a->root_arena);
	arena_finish(&a->keyset_arena);
	alloc_free(a);
}

void accept_set_refuse_after(struct accept *a, uint64_t refuse_after_ms)
{
	a->refuse_after_ms = refuse_after_ms;
}

void accept_doc_init(struct accept_doc *doc, enum envelope_type type, const char *name, struct text bytes)
{
	*doc = (struct accept_doc){ .type = type, .name = name == NULL ? "" : name, .bytes = bytes };
	arena_init(&doc->arena, 0);
	json_faults_init(&doc->faults, &doc->arena);
}

void accept_doc_finish(struct accept_doc *doc)
{
	arena_finish(&doc->arena);
}

static enum accept_result check_size(struct accept *a, struct accept_doc *doc)
{
	enum envelope_fault fault = envelope_read(doc->bytes, &doc->envelope);

	doc->has_envelope = fault == ENVELOPE_GOOD;
	if (fault == ENVELOPE_BAD_SIZE)
		return ACCEPT_SIZE;
	if (fault == ENVELOPE_BAD_HEADER)
		return ACCEPT_HEADER;
	if (fault != ENVELOPE_GOOD || doc->envelope.type != doc->type)
		return ACCEPT_TYPE;
	if (crypto_sha256(doc->envelope.payload.at, doc->envelope.payload.len, doc->sha256) != ERR_OK)
		return ACCEPT_NOT_KEPT;
	return ACCEPT_OK;
}

/* The root that must sign the next keyset: of the last one, unless the operator gave us another file since. */
static const struct keyset_doc_root *held_root(const struct accept *a)
{
	const struct floors_state *state = floors_state(a->floors);

	return state->root.threshold > 0 && crypto_equal(state->anchor, a->anchor, 32) ? &state->root : &a->anchor_root;
}

static bool is_signed_by_root(const struct envelope *e, const struct keyset_doc_root *root)
{
	size_t good = 0;

	for (size_t i = 0; i < e->signature_count; i++) {
		for (size_t k = 0; k < root->key_count; k++) {
			if (strcmp(e->signatures[i].key_id, root->keys[k].id) == 0 &&
			    envelope_is_signed_by(e, i, root->keys[k].public_key))
				good++;
		}
	}
	return root->threshold > 0 && good >= root->threshold;
}

static bool is_signed_for(const struct accept *a, const struct envelope *e, enum keyset_doc_role role)
{
	for (size_t i = 0; i < e->signature_count; i++) {
		const uint8_t *key = keyset_doc_find(&a->keyset, e->signatures[i].key_id, role);

		if (key != NULL && envelope_is_signed_by(e, i, key))
			return true;
	}
	return false;
}

static enum accept_result check_signature(struct accept *a, struct accept_doc *doc)
{
	char hex[65];
	bool is_good;

	switch (doc->type) {
	case ENVELOPE_KEYSET:
		is_good = is_signed_by_root(&doc->envelope, held_root(a));
		break;
	case ENVELOPE_BEAT:
		is_good = is_signed_for(a, &doc->envelope, KEYSET_DOC_BEAT);
		break;
	case ENVELOPE_MANIFEST:
		is_good = is_signed_for(a, &doc->envelope, KEYSET_DOC_MANIFEST);
		break;
	case ENVELOPE_LEASE:
		is_good = is_signed_for(a, &doc->envelope, KEYSET_DOC_LEASE);
		break;
	default: /* the lease that names this digest is signed */
		text_from_bytes_hex(doc->sha256, 32, hex);
		is_good = strcmp(hex, doc->name) == 0;
		break;
	}
	return is_good ? ACCEPT_OK : ACCEPT_SIGNATURE;
}

static enum accept_result check_schema(struct accept *a, struct accept_doc *doc)
{
	struct text payload = doc->envelope.payload;
	enum err e;

	switch (doc->type) {
	case ENVELOPE_KEYSET:
		e = keyset_doc_read(payload, &doc->faults, &doc->is.keyset);
		break;
	case ENVELOPE_BEAT:
		e = beat_doc_read(payload, &doc->faults, &doc->is.beat);
		break;
	case ENVELOPE_MANIFEST:
		e = manifest_doc_read(payload, &doc->faults, &doc->is.manifest);
		break;
	case ENVELOPE_LEASE:
		e = lease_doc_read(payload, LEASE_DOC_SIGNED, &doc->faults, &doc->is.lease);
		break;
	default:
		e = ruleset_doc_read(payload, &doc->faults, &doc->is.ruleset);
		break;
	}
	if (e != ERR_OK)
		return e == ERR_INVALID ? ACCEPT_SCHEMA : ACCEPT_NOT_KEPT;
	if (doc->type == ENVELOPE_KEYSET && !is_signed_by_root(&doc->envelope, &doc->is.keyset.root))
		return ACCEPT_SIGNATURE;
	return ACCEPT_OK;
}

/* Is it ours, and what it is stored as? */
static enum accept_result check_cell(struct accept *a, struct accept_doc *doc)
{
	bool is_ours = true;

	if (doc->type == ENVELOPE_BEAT)
		is_ours = doc->is.beat.group == a->group && beat_doc_find(&doc->is.beat, a->cell) != NULL;
	else if (doc->type == ENVELOPE_MANIFEST)
		is_ours = strcmp(doc->is.manifest.cell, a->cell) == 0;
	else if (doc->type == ENVELOPE_LEASE)
		is_ours = strcmp(doc->is.lease.cell, a->cell) == 0 && strcmp(doc->is.lease.lease, doc->name) == 0;
	return is_ours ? ACCEPT_OK : ACCEPT_CELL;
}

static uint64_t epoch_of(const struct accept_doc *doc)
{
	switch (doc->type) {
	case ENVELOPE_KEYSET:
		return doc->is.keyset.epoch_min;
	case ENVELOPE_BEAT:
		return doc->is.beat.epoch;
	case ENVELOPE_MANIFEST:
		return doc->is.manifest.epoch;
	default:
		return doc->is.lease.epoch;
	}
}

static enum accept_result check_epoch(struct accept *a, struct accept_doc *doc)
{
	if (doc->type == ENVELOPE_RULESET)
		return ACCEPT_OK;
	/* A keyset says from which epoch on; that never falls either, but documents may be ahead of it. */
	if (doc->type == ENVELOPE_KEYSET)
		return epoch_of(doc) >= a->keyset.epoch_min ? ACCEPT_OK : ACCEPT_EPOCH;
	return epoch_of(doc) >= floors_state(a->floors)->epoch && epoch_of(doc) >= a->keyset.epoch_min ? ACCEPT_OK : ACCEPT_EPOCH;
}

static uint64_t number_of(const struct accept_doc *doc)
{
	switch (doc->type) {
	case ENVELOPE_KEYSET:
		return doc->is.keyset.version;
	case ENVELOPE_BEAT:
		return doc->is.beat.seq;
	case ENVELOPE_MANIFEST:
		return doc->is.manifest.seq;
	default:
		return doc->is.lease.rev;
	}
}

static enum accept_result check_floor(struct accept *a, struct accept_doc *doc)
{
	const struct floors_state *state = floors_state(a->floors);
	const struct floor_mark *lease;
	struct floor_mark floor = { 0 };
	uint64_t number;

	if (doc->type == ENVELOPE_RULESET)
		return ACCEPT_OK;
	if (doc->type == ENVELOPE_LEASE) {
		lease = floors_lease(a->floors, doc->is.lease.lease);
		if (lease == NULL)
			return ACCEPT_OK;
		floor = *lease;
	} else {
		floor = doc->type == ENVELOPE_KEYSET ? state->keyset : doc->type == ENVELOPE_BEAT ? state->beat : state->manifest;
	}
	/* Counting may begin again where the root has ended an epoch (control was restored from a backup); no other key can say so. */
	if (doc->type != ENVELOPE_KEYSET && floor.epoch < a->keyset.epoch_min)
		return ACCEPT_OK;
	number = number_of(doc);
	if (number < floor.number)
		return ACCEPT_ROLLBACK;
	if (number == floor.number && number != 0 && memcmp(floor.sha256, doc->sha256, 32) != 0)
		return ACCEPT_EQUIVOCATION;
	return ACCEPT_OK;
}

/* The time that control has said, and what went by since; 0: it has said none. */
static uint64_t said_now(const struct accept *a)
{
	return a->said_ms == 0 ? 0 : a->said_ms + (clock_mono_ns() - a->said_ns) / NS_PER_MS;
}

static void note_said(struct accept *a, uint64_t iat_ms)
{
	if (iat_ms <= said_now(a))
		return;
	a->said_ms = iat_ms;
	a->said_ns = clock_mono_ns();
}

uint64_t accept_wall_ms(const struct accept *a)
{
	uint64_t wall_ms = clock_wall_ms(), at_least = said_now(a);

	return wall_ms > at_least ? wall_ms : at_least;
}

static enum accept_result check_times(struct accept *a, struct accept_doc *doc)
{
	uint64_t wall_ms = clock_wall_ms();

	if (doc->type == ENVELOPE_KEYSET)
		return doc->is.keyset.exp_ms > accept_wall_ms(a) ? ACCEPT_OK : ACCEPT_EXPIRED;
	/* Of leases the daemon judges the times, with words of their own; manifests and rulesets have none that end. */
	if (doc->type != ENVELOPE_BEAT)
		return ACCEPT_OK;
	/* Too old by the later of both clocks: one that was set back does not make a beat young that was held back. */
	if (doc->is.beat.iat_ms > wall_ms + ACCEPT_CLOCK_MS || doc->is.beat.iat_ms + a->refuse_after_ms < accept_wall_ms(a))
		return ACCEPT_CLOCK;
	return doc->is.beat.exp_ms > accept_wall_ms(a) ? ACCEPT_OK : ACCEPT_EXPIRED;
}

/* In the contract's order. check_size decides the first three together: they are one reading. */
static enum accept_result (*const checks[])(struct accept *a, struct accept_doc *doc) = {
	check_size, check_signature, check_schema, check_cell, check_epoch, check_floor, check_times,
};

static enum accept_result keep_lease(struct accept *a, const struct accept_doc *doc, const struct floor_mark *mark)
{
	const struct lease_doc *lease = &doc->is.lease;

	return floors_take_lease(a->floors, lease->lease, mark, lease->exp_ms, said_now(a)) == ERR_OK ? ACCEPT_OK : ACCEPT_NOT_KEPT;
}

/* The keyset in use moves into our own arena. */
static enum accept_result keep_keyset(struct accept *a, struct accept_doc *doc, const struct floor_mark *mark)
{
	const struct floors_state *state = floors_state(a->floors);
	bool is_known = state->keyset.number == mark->number && crypto_equal(state->anchor, a->anchor, 32);

	if (!is_known &&
	    floors_take_keyset(a->floors, a->anchor, &doc->is.keyset.root, mark, doc->is.keyset.epoch_min) != ERR_OK)
		return ACCEPT_NOT_KEPT;
	arena_finish(&a->keyset_arena);
	a->keyset_arena = doc->arena;
	a->keyset = doc->is.keyset;
	arena_init(&doc->arena, 0);
	json_faults_init(&doc->faults, &doc->arena);
	return ACCEPT_OK;
}

static enum accept_result keep(struct accept *a, struct accept_doc *doc)
{
	struct floor_mark mark = { 0 };

	if (doc->type == ENVELOPE_RULESET)
		return ACCEPT_OK;
	mark.number = number_of(doc);
	memcpy(mark.sha256, doc->sha256, 32);
	if (doc->type == ENVELOPE_KEYSET)
		return keep_keyset(a, doc, &mark);
	mark.epoch = epoch_of(doc);
	if (doc->type == ENVELOPE_LEASE)
		return keep_lease(a, doc, &mark);
	/* Beats and manifests move the epoch on. The lease key cannot: it would shut the cell for all others. */
	if (floors_is_broken(a->floors) || floors_take_epoch(a->floors, mark.epoch) != ERR_OK)
		return ACCEPT_NOT_KEPT;
	if (doc->type == ENVELOPE_MANIFEST) {
		floors_take_manifest(a->floors, &mark);
		return ACCEPT_OK;
	}
	floors_take_beat(a->floors, &mark);
	note_said(a, doc->is.beat.iat_ms);
	return ACCEPT_OK;
}

enum accept_result accept_examine(struct accept *a, struct accept_doc *doc)
{
	enum accept_result result = ACCEPT_OK;

	for (size_t i = 0; i < ARRAY_LEN(checks) && result == ACCEPT_OK; i++)
		result = checks[i](a, doc);
	if (result == ACCEPT_OK)
		result = keep(a, doc);
	a->counts[doc->type][result]++;
	return result;
}

uint64_t accept_keyset_version(const struct accept *a)
{
	return a->keyset.version;
}

uint64_t accept_keyset_exp_ms(const struct accept *a)
{
	return a->keyset.version == 0 ? 0 : a->keyset.exp_ms;
}

bool accept_keyset_is_expired(const struct accept *a)
{
	return a->keyset.version != 0 && accept_wall_ms(a) >= a->keyset.exp_ms;
}

uint64_t accept_count(const struct accept *a, enum envelope_type type, enum accept_result result)
{
	return a->counts[type][result];
}

const char *accept_result_word(enum accept_result result)
{
#define ACCEPT_RESULT_AS_WORD(sym, word, metric) word,
	static const char *const words[] = { ACCEPT_RESULTS(ACCEPT_RESULT_AS_WORD) };
#undef ACCEPT_RESULT_AS_WORD

	return words[result];
}

const char *accept_result_metric(enum accept_result result)
{
#define ACCEPT_RESULT_AS_METRIC(sym, word, metric) metric,
	static const char *const words[] = { ACCEPT_RESULTS(ACCEPT_RESULT_AS_METRIC) };
#undef ACCEPT_RESULT_AS_METRIC

	return words[result];
}
