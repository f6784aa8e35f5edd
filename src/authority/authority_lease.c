/*
 * One lease: from its file to a signed document, or, when nothing about either changed since it was last looked at, to what is known of it.
 * Promises that nothing is signed that does not compile, and that of ten thousand leases one that changed is read alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "authority/authority_internal.h"
#include "authority/files.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/text.h"
#include "compiler/compile.h"
#include "compiler/parse.h"
#include "compiler/print_doc.h"

#define SOURCE_MAX (1u << 20)
#define NBF_BEFORE_MS 60000 /* clocks of proxies may be behind */
#define SETTLED_MS 1000     /* a file that changed later than that may change again within one tick of its time */

/* A ruleset that this round's leases name. */
struct used {
	struct htab_node node;
	uint8_t sha256[32];
	bool is_there;
};

static bool is_ruleset(const struct htab_node *node, const void *sha256)
{
	return memcmp(CONTAINER_OF(node, const struct used, node)->sha256, sha256, 32) == 0;
}

static struct used *find_used(const struct authority_round *r, const uint8_t sha256[32])
{
	struct htab_node *node = htab_find(&r->rulesets, hash_bytes(&r->a->hash, sha256, 32), is_ruleset, sha256);

	return node == NULL ? NULL : CONTAINER_OF(node, struct used, node);
}

static void ruleset_name(const uint8_t sha256[32], char out_name[AUTHORITY_NAME_LEN])
{
	out_name[0] = 'r';
	out_name[1] = '/';
	text_from_bytes_hex(sha256, 32, out_name + 2);
}

/* NULL: no memory. */
static struct used *note_used(struct authority_round *r, const uint8_t sha256[32])
{
	struct authority_stamp stamp;
	struct used *used = find_used(r, sha256);
	char name[AUTHORITY_NAME_LEN];

	if (used != NULL)
		return used;
	used = arena_take(&r->cell_arena, sizeof(*used));
	if (used == NULL || htab_insert(&r->rulesets, &used->node, hash_bytes(&r->a->hash, sha256, 32)) != ERR_OK)
		return NULL;
	memcpy(used->sha256, sha256, 32);
	ruleset_name(sha256, name);
	used->is_there = authority_look(r->cell->out, name, &stamp);
	return used;
}

bool authority_use_ruleset(struct authority_round *r, const uint8_t sha256[32])
{
	const struct used *used = note_used(r, sha256);

	return used != NULL && used->is_there;
}

bool authority_is_ruleset_used(const struct authority_round *r, const uint8_t sha256[32])
{
	return find_used(r, sha256) != NULL;
}

enum err authority_keep_ruleset(struct authority_round *r, struct text payload, uint8_t out_sha256[32])
{
	char name[AUTHORITY_NAME_LEN];
	struct used *used;
	enum err e = crypto_sha256(payload.at, payload.len, out_sha256);

	if (e != ERR_OK)
		return e;
	used = note_used(r, out_sha256);
	if (used == NULL)
		return ERR_NO_MEMORY;
	if (used->is_there)
		return ERR_OK;
	ruleset_name(out_sha256, name);
	e = authority_write(r, r->cell->out, ENVELOPE_RULESET, name, payload, NULL);
	used->is_there = e == ERR_OK;
	return e;
}

/* The rulesets that a lease names: documents by hash, presets as documents of our own. */
static enum err link_rulesets(struct authority_round *r, const struct policy *policy, uint8_t (*rulesets)[32], size_t *out_count)
{
	size_t errors_before = r->faults->error_count, count = 0;
	struct library_uses uses = { .count = 0 };
	enum err e = library_resolve(&r->library, policy->uses, r->faults, &uses);

	for (const struct policy_use *use = policy->uses; use != NULL && e == ERR_OK; use = use->next)
		if (use->name[0] == '\0' && count < LEASE_DOC_RULESETS_MAX)
			memcpy(rulesets[count++], use->payload_sha256, 32);
	if (e == ERR_OK && r->faults->error_count > errors_before)
		e = ERR_INVALID;
	for (size_t i = 0; i < uses.count && e == ERR_OK; i++) {
		struct buf out;

		if (count == LEASE_DOC_RULESETS_MAX)
			return ERR_LIMIT;
		buf_init(&out, ENVELOPE_PAYLOAD_MAX);
		e = print_doc_ruleset(uses.presets[i]->policy, &out);
		if (e == ERR_OK)
			e = authority_keep_ruleset(r, (struct text){ (const char *)buf_data(&out), out.len }, rulesets[count++]);
		buf_finish(&out);
	}
	*out_count = count;
	return e;
}

static enum err read_source(struct authority_round *r, const char *path, struct policy **out_policy)
{
	const struct parse_as as = { .kind = POLICY_LEASE, .name = "", .report_allowed = r->a->options.report_allowed };
	struct lease_doc *doc;
	struct text text;
	enum err e = files_read(r->a->root, path, SOURCE_MAX, &r->scratch, &text);

	if (e != ERR_OK)
		return e;
	if (text.len == 0 || text.at[0] != '{')
		return parse_policy(&r->scratch, path, text, &as, r->faults, out_policy);
	doc = arena_take(&r->scratch, sizeof(*doc));
	if (doc == NULL)
		return ERR_NO_MEMORY;
	e = lease_doc_read(text, LEASE_DOC_LOCAL, &r->json_faults, doc);
	if (e == ERR_OK)
		return parse_lease_doc(&r->scratch, path, doc, as.report_allowed, r->faults, out_policy);
	parse_take_json_faults(path, &r->json_faults, r->faults);
	json_faults_init(&r->json_faults, &r->scratch);
	return e;
}

static bool is_any_ruleset(void *arg, const uint8_t sha256[32], struct layout_id *out_segment)
{
	memcpy(out_segment->bytes, sha256, sizeof(out_segment->bytes));
	return true;
}

/* Would a proxy take it? */
static enum err try_payload(struct authority_round *r, const char *path, struct text payload)
{
	const struct compile_context context = { .ruleset = is_any_ruleset, .report_allowed = r->a->options.report_allowed };
	struct compiled compiled;
	struct lease_doc doc;
	enum err e = lease_doc_read(payload, LEASE_DOC_SIGNED, &r->json_faults, &doc);

	if (e == ERR_INVALID) {
		parse_take_json_faults(path, &r->json_faults, r->faults);
		json_faults_init(&r->json_faults, &r->scratch);
	}
	if (e != ERR_OK)
		return e;
	e = compile_lease_doc(path, &doc, &context, r->faults, &compiled);
	if (e != ERR_OK)
		return e;
	e = compiled.is_quarantined ? ERR_INVALID : ERR_OK;
	compiled_finish(&compiled);
	return e;
}

/* What is written of a lease now: numbers and times to go on from. */
struct written {
	bool is_there, is_by_our_key;
	struct text payload;
	uint64_t rev, nbf_ms, exp_ms;
};

static enum err read_written(struct authority_round *r, const char *name, struct written *written)
{
	struct envelope envelope;
	struct lease_doc doc;
	struct text text;
	enum err e = files_read(r->cell->out, name, ENVELOPE_MAX, &r->scratch, &text);

	*written = (struct written){ .is_there = false };
	if (e != ERR_OK)
		return e == ERR_NO_MEMORY ? e : ERR_OK;
	if (envelope_read(text, &envelope) == ENVELOPE_GOOD &&
	    lease_doc_read(envelope.payload, LEASE_DOC_SIGNED, &r->json_faults, &doc) == ERR_OK)
		*written = (struct written){ .is_there = true,
					     .is_by_our_key = envelope.signature_count == 1 &&
							      strcmp(envelope.signatures[0].key_id, r->lease->id) == 0,
					     .payload = envelope.payload,
					     .rev = doc.rev,
					     .nbf_ms = doc.nbf_ms,
					     .exp_ms = doc.exp_ms };
	json_faults_init(&r->json_faults, &r->scratch);
	return ERR_OK;
}

/* Print the lease as it is written, or as the next revision when it differs. True in *out_is_new for the latter. */
static enum err print_lease(struct authority_round *r, const struct policy *policy, const struct written *written,
			    struct print_doc_signed *with, struct buf *out, bool *out_is_new)
{
	uint64_t lifetime_ms = r->a->options.lifetime_ms;
	enum err e;

	with->cell = r->cell->name;
	with->epoch = r->a->epoch;
	if (written->is_there && written->is_by_our_key) {
		with->rev = written->rev;
		with->nbf_ms = policy->nbf_ms != 0 ? policy->nbf_ms : written->nbf_ms;
		with->exp_ms = policy->exp_ms != 0		       ? policy->exp_ms :
			       written->exp_ms > r->wall_ms + lifetime_ms / 2 ? written->exp_ms :
									r->wall_ms + lifetime_ms;
		e = print_doc_lease(policy, with, out);
		if (e != ERR_OK)
			return e;
		*out_is_new = !text_equal(written->payload, (struct text){ (const char *)buf_data(out), out->len });
		if (!*out_is_new)
			return ERR_OK;
		buf_consume(out, out->len);
	}
	*out_is_new = true;
	with->rev = authority_next_number(written->rev, r->wall_ms);
	with->exp_ms = policy->exp_ms != 0 ? policy->exp_ms : r->wall_ms + lifetime_ms;
	with->nbf_ms = policy->nbf_ms != 0 ? policy->nbf_ms : r->wall_ms - NBF_BEFORE_MS;
	if (with->nbf_ms >= with->exp_ms)
		with->nbf_ms = with->exp_ms > 1 ? with->exp_ms - 1 : 1;
	return print_doc_lease(policy, with, out);
}


/* --- what is known of a file --- */

static bool has_path(const struct htab_node *node, const void *path)
{
	return strcmp(CONTAINER_OF(node, const struct authority_source, node)->path, path) == 0;
}

static bool has_id(const struct htab_node *node, const void *id)
{
	return strcmp(CONTAINER_OF(node, const struct authority_source, id_node)->id, id) == 0;
}

static uint64_t hash_of(const struct authority_round *r, const char *text)
{
	return hash_bytes(&r->a->hash, text, strlen(text));
}

static struct authority_source *find_source(const struct authority_round *r, const char *path)
{
	struct htab_node *node = htab_find(&r->cell->sources, hash_of(r, path), has_path, path);

	return node == NULL ? NULL : CONTAINER_OF(node, struct authority_source, node);
}

void authority_forget_source(struct authority_cell *cell, struct authority_source *source)
{
	htab_remove(&cell->sources, &source->node);
	alloc_free(source->rulesets);
	alloc_free(source->path);
	alloc_free(source);
}

static enum err new_source(struct authority_round *r, const char *path, struct authority_source **out_source)
{
	struct authority_source *s = alloc_zeroed(sizeof(*s));

	if (s == NULL)
		return ERR_NO_MEMORY;
	s->path = alloc_copy(path, strlen(path));
	if (s->path == NULL || htab_insert(&r->cell->sources, &s->node, hash_of(r, path)) != ERR_OK) {
		alloc_free(s->path);
		alloc_free(s);
		return ERR_NO_MEMORY;
	}
	*out_source = s;
	return ERR_OK;
}

static bool is_same_stamp(const struct authority_stamp *a, const struct authority_stamp *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static bool is_named(const struct authority_round *r, const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	for (size_t i = 0; i < r->changes->count; i++)
		if (strcmp(r->changes->names[i], name) == 0)
			return true;
	return false;
}

/* Of a file that nobody said changed, no more is asked than whether it was there. */
static bool is_left_alone(const struct authority_round *r, const struct authority_source *s)
{
	static const struct authority_stamp none;

	return r->changes != NULL && !is_same_stamp(&s->in, &none) && !is_named(r, s->path);
}

/* Are the file and its document as they were when one became the other? */
static bool is_untouched(const struct authority_round *r, const struct authority_source *s, const struct authority_stamp *in)
{
	char name[AUTHORITY_NAME_LEN];
	struct authority_stamp out;

	snprintf(name, sizeof(name), "l/%s", s->id);
	return is_same_stamp(&s->in, in) && authority_look(r->cell->out, name, &out) && is_same_stamp(&s->out, &out);
}

/* Does the document still hold? Marks the rulesets that it names. */
static bool is_unchanged(struct authority_round *r, const struct authority_source *s)
{
	bool is_whole = true;

	if (r->wall_ms >= s->renew_at_ms)
		return false;
	for (size_t i = 0; i < s->ruleset_count; i++)
		is_whole = authority_use_ruleset(r, s->rulesets[i]) && is_whole;
	return is_whole;
}

/* Two files with one lease: the second one is faulty. */
static enum err add_entry(struct authority_round *r, struct authority_source *s)
{
	if (htab_find(&r->ids, hash_of(r, s->id), has_id, s->id) != NULL) {
		fault_add(r->faults, (struct fault_place){ .file = s->path }, FAULT_ERROR, "duplicate_lease",
			  "another file has this lease too");
		return ERR_INVALID;
	}
	if (r->entry_count == r->entry_room)
		return ERR_LIMIT;
	if (htab_insert(&r->ids, &s->id_node, hash_of(r, s->id)) != ERR_OK)
		return ERR_NO_MEMORY;
	r->entries[r->entry_count].id = s->id;
	r->entries[r->entry_count].rev = s->rev;
	memcpy(r->entries[r->entry_count++].sha256, s->sha256, 32);
	s->is_seen = true;
	return ERR_OK;
}

/* Remember what the file became, unless it may still change unnoticed. */
static enum err remember(struct authority_round *r, struct authority_source *s, const struct authority_stamp *in,
			 const struct print_doc_signed *with, uint64_t renew_at_ms)
{
	char name[AUTHORITY_NAME_LEN];
	int64_t settled_ns = ((int64_t)clock_wall_ms() - SETTLED_MS) * 1000000;

	alloc_free(s->rulesets);
	s->ruleset_count = 0;
	s->rulesets = alloc_array(with->ruleset_count + 1, sizeof(*s->rulesets));
	if (s->rulesets == NULL)
		return ERR_NO_MEMORY;
	memcpy(s->rulesets, with->rulesets, with->ruleset_count * sizeof(*s->rulesets));
	s->ruleset_count = with->ruleset_count;
	s->rev = with->rev;
	s->renew_at_ms = renew_at_ms;
	snprintf(name, sizeof(name), "l/%s", s->id);
	s->in = in->ctime_ns < settled_ns && authority_look(r->cell->out, name, &s->out) ? *in : (struct authority_stamp){ 0 };
	return ERR_OK;
}

/* From the file to its document. */
static enum err make_document(struct authority_round *r, struct authority_source *s, const struct authority_stamp *in)
{
	uint8_t rulesets[LEASE_DOC_RULESETS_MAX][32];
	struct print_doc_signed with = { .rulesets = (const uint8_t(*)[32])rulesets };
	char name[AUTHORITY_NAME_LEN];
	struct policy *policy = NULL;
	struct written written;
	struct text payload;
	struct buf out;
	bool is_new;
	enum err e = read_source(r, s->path, &policy);

	if (e != ERR_OK)
		return e;
	snprintf(s->id, sizeof(s->id), "%s", policy->name);
	if (htab_find(&r->ids, hash_of(r, s->id), has_id, s->id) != NULL)
		return add_entry(r, s);
	snprintf(name, sizeof(name), "l/%s", s->id);
	buf_init(&out, ENVELOPE_PAYLOAD_MAX);
	e = link_rulesets(r, policy, rulesets, &with.ruleset_count);
	if (e == ERR_OK)
		e = read_written(r, name, &written);
	if (e == ERR_OK)
		e = print_lease(r, policy, &written, &with, &out, &is_new);
	payload = (struct text){ (const char *)buf_data(&out), out.len };
	if (e == ERR_OK && is_new)
		e = try_payload(r, s->path, payload);
	if (e == ERR_OK)
		e = crypto_sha256(payload.at, payload.len, s->sha256);
	if (e == ERR_OK && is_new)
		e = authority_write(r, r->cell->out, ENVELOPE_LEASE, name, payload, r->lease);
	if (e == ERR_OK)
		e = remember(r, s, in, &with, policy->exp_ms != 0 ? UINT64_MAX : with.exp_ms - r->a->options.lifetime_ms / 2);
	buf_finish(&out);
	return e == ERR_OK ? add_entry(r, s) : e;
}

enum err authority_keep_lease(struct authority_round *r, const char *path)
{
	struct authority_source *s = find_source(r, path);
	struct authority_stamp in;
	enum err e = ERR_OK;

	if (s != NULL && is_left_alone(r, s) && is_unchanged(r, s))
		return add_entry(r, s);
	if (!authority_look(r->a->root, path, &in))
		return ERR_NOT_FOUND;
	if (s != NULL && is_untouched(r, s, &in) && is_unchanged(r, s))
		return add_entry(r, s);
	if (s == NULL)
		e = new_source(r, path, &s);
	if (e != ERR_OK)
		return e;
	arena_init(&r->scratch, 0);
	json_faults_init(&r->json_faults, &r->scratch);
	/* A document is rulesets, a print and a signature away from its file; nothing of the last time counts. */
	s->in = (struct authority_stamp){ 0 };
	e = make_document(r, s, &in);
	json_faults_init(&r->json_faults, &r->arena);
	arena_finish(&r->scratch);
	return e;
}
