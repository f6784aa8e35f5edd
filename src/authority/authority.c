/*
 * See authority.h. Promises that a manifest is written after all that it names and a beat after its manifest, that numbers only rise, and
 * that nothing is signed that does not compile. Numbers are milliseconds of the wall clock, or one more than the last.
 */
#include "authority/authority.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "authority/files.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/crypto.h"
#include "base/text.h"
#include "compiler/compile.h"
#include "compiler/library.h"
#include "compiler/parse.h"
#include "compiler/print_doc.h"
#include "document/beat_doc.h"
#include "document/envelope.h"
#include "document/keyset_doc.h"
#include "document/manifest_doc.h"

#define SOURCE_MAX (1u << 20)
#define NBF_BEFORE_MS 60000 /* clocks of proxies may be behind */
#define NAME_LEN 80

struct authority {
	struct authority_options options;
	int root, out;       /* owned */
	uint64_t beat_seq, keyset_version, epoch;
	uint64_t manifest_seq;     /* 0: none written yet */
	uint8_t manifest_sha256[32];
};

/* One round of publishing. */
struct round {
	struct authority *a;
	struct arena arena;
	struct keyring ring;
	struct json_faults json_faults;
	struct keyset_doc keyset;
	const struct keyring_key *beat, *manifest, *lease; /* in the ring; NULL: none that the keyset knows */
	struct library library;
	uint64_t wall_ms;
	struct manifest_doc_entry *entries;
	size_t entry_count;
	const char **rulesets; /* names that are in use */
	size_t ruleset_count, ruleset_room;
	struct fault_list *faults;
	struct authority_counts counts;
};

static enum err say(char out_reason[KEYRING_REASON_MAX], enum err e, const char *what)
{
	snprintf(out_reason, KEYRING_REASON_MAX, "%s: %s", what, e == ERR_SYSTEM ? strerror(errno) : err_text(e));
	return e;
}

static const struct keyring_key *key_for(const struct round *r, const char *role, enum keyset_doc_role which)
{
	for (size_t i = r->ring.count; i-- > 0;) {
		const struct keyring_key *key = &r->ring.keys[i];
		const uint8_t *known = keyring_has_role(key, role) ? keyset_doc_find(&r->keyset, key->id, which) : NULL;

		if (known != NULL && memcmp(known, key->public_key, 32) == 0)
			return key;
	}
	return NULL;
}

/* Keys and keyset as they are now. Finish it also on failure. */
static enum err round_begin(struct round *r, struct authority *a, uint64_t wall_ms, char out_reason[KEYRING_REASON_MAX])
{
	struct envelope envelope;
	struct text text;
	enum err e;

	*r = (struct round){ .a = a, .wall_ms = wall_ms };
	arena_init(&r->arena, 0);
	json_faults_init(&r->json_faults, &r->arena);
	e = keyring_open(&r->ring, a->options.keys, false, out_reason);
	if (e != ERR_OK)
		return e;
	e = files_read(a->out, "keyset", ENVELOPE_MAX, &r->arena, &text);
	if (e == ERR_OK && (envelope_read(text, &envelope) != ENVELOPE_GOOD ||
			    keyset_doc_read(envelope.payload, &r->json_faults, &r->keyset) != ERR_OK))
		e = ERR_INVALID;
	if (e != ERR_OK)
		return say(out_reason, e, "the keyset (egressctl authority sign makes one)");
	a->keyset_version = r->keyset.version;
	a->epoch = r->keyset.epoch_min;
	r->beat = key_for(r, "beat", KEYSET_DOC_BEAT);
	r->manifest = key_for(r, "manifest", KEYSET_DOC_MANIFEST);
	r->lease = key_for(r, "lease", KEYSET_DOC_LEASE);
	if (r->beat == NULL || r->manifest == NULL || r->lease == NULL)
		return say(out_reason, ERR_DENIED, "no key of each role that the keyset knows");
	return ERR_OK;
}

static void round_finish(struct round *r)
{
	keyring_finish(&r->ring);
	arena_finish(&r->arena);
}

static enum err write_signed(struct round *r, enum envelope_type type, const char *name, struct text payload,
			     const struct keyring_key *key)
{
	struct envelope_signer signer = { NULL, NULL };
	uint8_t *bytes;
	size_t len;
	enum err e;

	if (key != NULL)
		signer = (struct envelope_signer){ key->id, key->private_key };
	e = envelope_write(type, payload, &signer, key != NULL, &bytes, &len);
	if (e != ERR_OK)
		return e;
	e = files_write(r->a->out, name, bytes, len, 0644);
	alloc_free(bytes);
	r->counts.written += e == ERR_OK;
	return e;
}

static enum err keep_ruleset(struct round *r, struct text payload, uint8_t out_sha256[32])
{
	char name[NAME_LEN] = "r/";
	struct stat st;
	enum err e = crypto_sha256(payload.at, payload.len, out_sha256);

	if (e != ERR_OK)
		return e;
	text_from_bytes_hex(out_sha256, 32, name + 2);
	for (size_t i = 0; i < r->ruleset_count; i++)
		if (strcmp(r->rulesets[i], name) == 0)
			return ERR_OK;
	if (r->ruleset_count == r->ruleset_room) {
		size_t room = r->ruleset_room == 0 ? 64 : 2 * r->ruleset_room;
		const char **more = arena_take_array(&r->arena, room, sizeof(*more));

		if (more == NULL)
			return ERR_NO_MEMORY;
		if (r->ruleset_count > 0)
			memcpy(more, r->rulesets, r->ruleset_count * sizeof(*more));
		r->rulesets = more;
		r->ruleset_room = room;
	}
	r->rulesets[r->ruleset_count] = arena_text(&r->arena, name, strlen(name));
	if (r->rulesets[r->ruleset_count] == NULL)
		return ERR_NO_MEMORY;
	r->ruleset_count++;
	if (fstatat(r->a->out, name, &st, 0) == 0)
		return ERR_OK;
	return write_signed(r, ENVELOPE_RULESET, name, payload, NULL);
}

/* Payloads that the policy root has as documents. */
static enum err keep_documents(struct round *r)
{
	const char *const *names;
	size_t count;
	enum err e = files_list(r->a->root, "rulesets", ".json", &r->arena, &names, &count);

	for (size_t i = 0; i < count && e == ERR_OK; i++) {
		char path[512];
		struct ruleset_doc doc;
		struct text text;
		uint8_t sha256[32];

		snprintf(path, sizeof(path), "rulesets/%s.json", names[i]);
		e = files_read(r->a->root, path, ENVELOPE_PAYLOAD_MAX, &r->arena, &text);
		if (e != ERR_OK)
			break;
		if (ruleset_doc_read(text, &r->json_faults, &doc) == ERR_OK)
			e = keep_ruleset(r, text, sha256);
		else
			parse_take_json_faults(path, &r->json_faults, r->faults);
		json_faults_init(&r->json_faults, &r->arena);
	}
	return e;
}

static enum err read_preset(void *arg, const struct preset *preset, struct arena *arena, struct text *out_text,
			    struct source_stamp *out_stamp, char out_reason[SOURCE_REASON_MAX])
{
	struct round *r = arg;
	enum err e = files_read(r->a->root, preset->file, SOURCE_MAX, arena, out_text);

	*out_stamp = (struct source_stamp){ 0 };
	snprintf(out_reason, SOURCE_REASON_MAX, "the preset cannot be read: %s", err_text(e));
	return e;
}

/* The rulesets that a lease names: documents by hash, presets as documents of our own. */
static enum err link_rulesets(struct round *r, const struct policy *policy, uint8_t (*rulesets)[32], size_t *out_count)
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
			e = keep_ruleset(r, (struct text){ (const char *)buf_data(&out), out.len }, rulesets[count++]);
		buf_finish(&out);
	}
	*out_count = count;
	return e;
}

static enum err read_source(struct round *r, const char *path, struct policy **out_policy)
{
	const struct parse_as as = { .kind = POLICY_LEASE, .name = "", .report_allowed = r->a->options.report_allowed };
	struct lease_doc *doc;
	struct text text;
	enum err e = files_read(r->a->root, path, SOURCE_MAX, &r->arena, &text);

	if (e != ERR_OK)
		return e;
	if (text.len == 0 || text.at[0] != '{')
		return parse_policy(&r->arena, path, text, &as, r->faults, out_policy);
	doc = arena_take(&r->arena, sizeof(*doc));
	if (doc == NULL)
		return ERR_NO_MEMORY;
	e = lease_doc_read(text, LEASE_DOC_LOCAL, &r->json_faults, doc);
	if (e == ERR_OK)
		return parse_lease_doc(&r->arena, path, doc, as.report_allowed, r->faults, out_policy);
	parse_take_json_faults(path, &r->json_faults, r->faults);
	json_faults_init(&r->json_faults, &r->arena);
	return e;
}

static bool is_any_ruleset(void *arg, const uint8_t sha256[32], struct layout_id *out_segment)
{
	memcpy(out_segment->bytes, sha256, sizeof(out_segment->bytes));
	return true;
}

/* Would a proxy take it? */
static enum err try_payload(struct round *r, const char *path, struct text payload)
{
	const struct compile_context context = { .ruleset = is_any_ruleset, .report_allowed = r->a->options.report_allowed };
	struct compiled compiled;
	struct lease_doc doc;
	enum err e = lease_doc_read(payload, LEASE_DOC_SIGNED, &r->json_faults, &doc);

	if (e == ERR_INVALID) {
		parse_take_json_faults(path, &r->json_faults, r->faults);
		json_faults_init(&r->json_faults, &r->arena);
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

static enum err read_written(struct round *r, const char *name, struct written *written)
{
	struct envelope envelope;
	struct lease_doc doc;
	struct text text;
	enum err e = files_read(r->a->out, name, ENVELOPE_MAX, &r->arena, &text);

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
	json_faults_init(&r->json_faults, &r->arena);
	return ERR_OK;
}

static uint64_t next_number(uint64_t last, uint64_t wall_ms)
{
	return last >= wall_ms ? last + 1 : wall_ms;
}

/* Print the lease as it is written, or as the next revision when it differs. True in *out_is_new for the latter. */
static enum err print_lease(struct round *r, const struct policy *policy, const struct written *written,
			    struct print_doc_signed *with, struct buf *out, bool *out_is_new)
{
	uint64_t lifetime_ms = r->a->options.lifetime_ms;
	enum err e;

	with->cell = r->a->options.cell;
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
	with->rev = next_number(written->rev, r->wall_ms);
	with->exp_ms = policy->exp_ms != 0 ? policy->exp_ms : r->wall_ms + lifetime_ms;
	with->nbf_ms = policy->nbf_ms != 0 ? policy->nbf_ms : r->wall_ms - NBF_BEFORE_MS;
	if (with->nbf_ms >= with->exp_ms)
		with->nbf_ms = with->exp_ms > 1 ? with->exp_ms - 1 : 1;
	return print_doc_lease(policy, with, out);
}

static enum err keep_lease(struct round *r, const char *path)
{
	uint8_t rulesets[LEASE_DOC_RULESETS_MAX][32];
	struct print_doc_signed with = { .rulesets = (const uint8_t(*)[32])rulesets };
	struct manifest_doc_entry *entry = &r->entries[r->entry_count];
	struct policy *policy = NULL;
	char name[NAME_LEN];
	struct written written;
	struct text payload;
	struct buf out;
	bool is_new;
	enum err e = read_source(r, path, &policy);

	if (e != ERR_OK)
		return e;
	for (size_t i = 0; i < r->entry_count; i++) {
		if (strcmp(r->entries[i].id, policy->name) == 0) {
			fault_add(r->faults, (struct fault_place){ .file = path }, FAULT_ERROR, "duplicate_lease",
				  "another file has this lease too");
			return ERR_INVALID;
		}
	}
	snprintf(name, sizeof(name), "l/%s", policy->name);
	buf_init(&out, ENVELOPE_PAYLOAD_MAX);
	e = link_rulesets(r, policy, rulesets, &with.ruleset_count);
	if (e == ERR_OK)
		e = read_written(r, name, &written);
	if (e == ERR_OK)
		e = print_lease(r, policy, &written, &with, &out, &is_new);
	payload = (struct text){ (const char *)buf_data(&out), out.len };
	if (e == ERR_OK && is_new)
		e = try_payload(r, path, payload);
	if (e == ERR_OK)
		e = crypto_sha256(payload.at, payload.len, entry->sha256);
	if (e == ERR_OK && is_new)
		e = write_signed(r, ENVELOPE_LEASE, name, payload, r->lease);
	if (e == ERR_OK) {
		entry->id = policy->name;
		entry->rev = with.rev;
		r->entry_count++;
	}
	buf_finish(&out);
	return e;
}

static enum err keep_leases(struct round *r, const char *ending)
{
	const char *const *names;
	size_t count;
	enum err e = files_list(r->a->root, "leases", ending, &r->arena, &names, &count);

	for (size_t i = 0; i < count && e == ERR_OK; i++) {
		char path[512];

		if (r->entry_count == MANIFEST_DOC_LEASES_MAX)
			return ERR_LIMIT;
		snprintf(path, sizeof(path), "leases/%s%s", names[i], ending);
		e = keep_lease(r, path);
		if (e == ERR_INVALID || e == ERR_NOT_FOUND || e == ERR_LIMIT) {
			r->counts.faulty++;
			e = ERR_OK;
		}
	}
	return e;
}

static int by_id(const void *a, const void *b)
{
	const struct manifest_doc_entry *x = a, *y = b;

	return strcmp(x->id, y->id);
}

static bool is_entry(const struct round *r, const char *id)
{
	struct manifest_doc_entry wanted = { .id = id };

	return r->entry_count > 0 && bsearch(&wanted, r->entries, r->entry_count, sizeof(wanted), by_id) != NULL;
}

/* Leases that are not meant any more. */
static enum err withdraw(struct round *r)
{
	const char *const *names;
	size_t count;
	enum err e = files_list(r->a->out, "l", "", &r->arena, &names, &count);

	for (size_t i = 0; i < count && e == ERR_OK; i++) {
		char path[NAME_LEN];

		if (is_entry(r, names[i]))
			continue;
		snprintf(path, sizeof(path), "l/%s", names[i]);
		if (unlinkat(r->a->out, path, 0) != 0 && errno != ENOENT)
			return ERR_SYSTEM;
		r->counts.withdrawn++;
	}
	return e;
}

/* Rulesets that nobody names any more; after the manifest, so that nobody misses one. */
static enum err sweep_rulesets(struct round *r)
{
	const char *const *names;
	size_t count;
	enum err e = files_list(r->a->out, "r", "", &r->arena, &names, &count);

	for (size_t i = 0; i < count && e == ERR_OK; i++) {
		char path[NAME_LEN];
		bool is_used = false;

		snprintf(path, sizeof(path), "r/%s", names[i]);
		for (size_t k = 0; k < r->ruleset_count && !is_used; k++)
			is_used = strcmp(r->rulesets[k], path) == 0;
		if (!is_used && unlinkat(r->a->out, path, 0) != 0 && errno != ENOENT)
			return ERR_SYSTEM;
	}
	return e;
}

/* The manifest that is there, if it is one; its number even when all else differs. */
static enum err read_manifest(struct round *r, struct manifest_doc *out_doc, bool *out_is_ours)
{
	struct envelope envelope;
	struct text text;
	enum err e = files_read(r->a->out, "m", ENVELOPE_MAX, &r->arena, &text);

	*out_doc = (struct manifest_doc){ .cell = "" };
	*out_is_ours = false;
	if (e != ERR_OK)
		return e == ERR_NO_MEMORY ? e : ERR_OK;
	if (envelope_read(text, &envelope) == ENVELOPE_GOOD &&
	    manifest_doc_read(envelope.payload, &r->json_faults, out_doc) == ERR_OK)
		*out_is_ours = envelope.signature_count == 1 && strcmp(envelope.signatures[0].key_id, r->manifest->id) == 0 &&
			       strcmp(out_doc->cell, r->a->options.cell) == 0 &&
			       crypto_sha256(envelope.payload.at, envelope.payload.len, r->a->manifest_sha256) == ERR_OK;
	json_faults_init(&r->json_faults, &r->arena);
	return ERR_OK;
}

static enum err keep_manifest(struct round *r)
{
	struct authority *a = r->a;
	char text[512], base64[48];
	uint8_t root[32];
	struct manifest_doc before;
	bool is_ours;
	int len;
	enum err e = manifest_doc_root(r->entries, r->entry_count, root);

	if (e == ERR_OK)
		e = read_manifest(r, &before, &is_ours);
	if (e != ERR_OK)
		return e;
	a->manifest_seq = before.seq;
	if (is_ours && before.epoch == a->epoch && memcmp(before.root, root, 32) == 0)
		return ERR_OK;
	a->manifest_seq = next_number(before.seq, r->wall_ms);
	crypto_base64url(root, sizeof(root), base64, sizeof(base64));
	len = snprintf(text, sizeof(text),
		       "{\"typ\":\"egress.manifest/1\",\"epoch\":%llu,\"cell\":\"%s\",\"seq\":%llu,\"iat_ms\":%llu,\"leases\":%zu,\"root\":\"%s\"}",
		       (unsigned long long)a->epoch, a->options.cell, (unsigned long long)a->manifest_seq,
		       (unsigned long long)r->wall_ms, r->entry_count, base64);
	e = crypto_sha256(text, (size_t)len, a->manifest_sha256);
	return e == ERR_OK ? write_signed(r, ENVELOPE_MANIFEST, "m", (struct text){ text, (size_t)len }, r->manifest) : e;
}

static enum err make_folders(struct authority *a)
{
	if ((mkdirat(a->out, "l", 0755) != 0 && errno != EEXIST) || (mkdirat(a->out, "r", 0755) != 0 && errno != EEXIST))
		return ERR_SYSTEM;
	return ERR_OK;
}

enum err authority_publish(struct authority *a, uint64_t wall_ms, struct fault_list *faults, struct authority_counts *out_counts,
			   char out_reason[KEYRING_REASON_MAX])
{
	struct round r;
	enum err e = round_begin(&r, a, wall_ms, out_reason);

	library_init(&r.library, read_preset, &r, a->options.report_allowed);
	if (e != ERR_OK)
		goto out;
	r.faults = faults;
	r.entries = arena_take_array(&r.arena, MANIFEST_DOC_LEASES_MAX + 1, sizeof(*r.entries));
	e = r.entries == NULL ? ERR_NO_MEMORY : make_folders(a);
	if (e == ERR_OK)
		e = keep_documents(&r);
	if (e == ERR_OK)
		e = keep_leases(&r, ".policy");
	if (e == ERR_OK)
		e = keep_leases(&r, ".json");
	if (e == ERR_OK) {
		qsort(r.entries, r.entry_count, sizeof(*r.entries), by_id);
		e = withdraw(&r);
	}
	if (e == ERR_OK)
		e = keep_manifest(&r);
	if (e == ERR_OK)
		e = sweep_rulesets(&r);
	if (e != ERR_OK)
		say(out_reason, e, "publishing");
	r.counts.leases = r.entry_count;
	*out_counts = r.counts;
out:
	library_finish(&r.library);
	round_finish(&r);
	return e;
}

enum err authority_beat(struct authority *a, uint64_t wall_ms, char out_reason[KEYRING_REASON_MAX])
{
	char text[1024], base64[48];
	struct round r;
	int len;
	enum err e = round_begin(&r, a, wall_ms, out_reason);

	if (e != ERR_OK || a->manifest_seq == 0)
		goto out;
	a->beat_seq = next_number(a->beat_seq, wall_ms);
	crypto_base64url(a->manifest_sha256, 32, base64, sizeof(base64));
	len = snprintf(text, sizeof(text),
		       "{\"typ\":\"egress.beat/1\",\"epoch\":%llu,\"group\":%u,\"seq\":%llu,\"iat_ms\":%llu,\"exp_ms\":%llu,"
		       "\"keyset\":%llu,\"cells\":{\"%s\":[%llu,\"%s\"]}}",
		       (unsigned long long)a->epoch, beat_doc_group_of(a->options.cell), (unsigned long long)a->beat_seq,
		       (unsigned long long)wall_ms, (unsigned long long)wall_ms + AUTHORITY_BEAT_LIFETIME_MS,
		       (unsigned long long)a->keyset_version, a->options.cell, (unsigned long long)a->manifest_seq, base64);
	e = write_signed(&r, ENVELOPE_BEAT, "beat", (struct text){ text, (size_t)len }, r.beat);
	if (e != ERR_OK)
		say(out_reason, e, "the beat");
out:
	round_finish(&r);
	return e;
}

/* The number to go on from after a restart. */
static void read_beat(struct round *r)
{
	struct envelope envelope;
	struct beat_doc doc;
	struct text text;

	if (files_read(r->a->out, "beat", ENVELOPE_MAX, &r->arena, &text) == ERR_OK && envelope_read(text, &envelope) == ENVELOPE_GOOD &&
	    beat_doc_read(envelope.payload, &r->json_faults, &doc) == ERR_OK)
		r->a->beat_seq = doc.seq;
}

enum err authority_open(const struct authority_options *options, char out_reason[KEYRING_REASON_MAX], struct authority **out_authority)
{
	struct authority *a = alloc_zeroed(sizeof(*a));
	struct round r;
	enum err e;

	if (a == NULL)
		return say(out_reason, ERR_NO_MEMORY, "authority");
	a->options = *options;
	a->root = open(options->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	a->out = open(options->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (a->root < 0 || a->out < 0)
		e = say(out_reason, ERR_SYSTEM, a->root < 0 ? options->root : options->out);
	else if (!lease_doc_id_is_valid(text_of(options->cell)))
		e = say(out_reason, ERR_INVALID, "the cell's name");
	else
		e = ERR_OK;
	if (e == ERR_OK) {
		e = round_begin(&r, a, 0, out_reason);
		if (e == ERR_OK)
			read_beat(&r);
		round_finish(&r);
	}
	if (e != ERR_OK) {
		authority_close(a);
		return e;
	}
	*out_authority = a;
	return ERR_OK;
}

void authority_close(struct authority *a)
{
	if (a == NULL)
		return;
	if (a->root >= 0)
		close(a->root);
	if (a->out >= 0)
		close(a->out);
	alloc_free(a);
}
