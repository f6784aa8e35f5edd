/*
 * See authority.h. Promises that a manifest is written after all that it names and a beat after its manifest, that numbers only rise, and
 * that what did not change is not read again. Numbers are milliseconds of the wall clock, or one more than the last.
 */
#include "authority/authority.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "authority/authority_internal.h"
#include "authority/files.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/crypto.h"
#include "base/text.h"
#include "compiler/parse.h"
#include "document/beat_doc.h"

#define SOURCE_MAX (1u << 20)
#define CELLS_MAX 10000
#define CELLS_FOLDER "cells"

static enum err say(char out_reason[KEYRING_REASON_MAX], enum err e, const char *what)
{
	snprintf(out_reason, KEYRING_REASON_MAX, "%s: %s", what, e == ERR_SYSTEM ? strerror(errno) : err_text(e));
	return e;
}

bool authority_look(int folder, const char *name, struct authority_stamp *out_stamp)
{
	struct stat st;

	if (fstatat(folder, name, &st, 0) != 0 || !S_ISREG(st.st_mode))
		return false;
	*out_stamp = (struct authority_stamp){ st.st_dev, st.st_ino, (uint64_t)st.st_size,
					       st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec,
					       st.st_ctim.tv_sec * 1000000000LL + st.st_ctim.tv_nsec };
	return true;
}

uint64_t authority_next_number(uint64_t last, uint64_t wall_ms)
{
	return last >= wall_ms ? last + 1 : wall_ms;
}

enum err authority_write(struct authority_round *r, int folder, enum envelope_type type, const char *name, struct text payload,
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
	e = files_write(folder, name, bytes, len, 0644);
	alloc_free(bytes);
	r->counts.written += e == ERR_OK;
	return e;
}

/* --- a round: keys and keyset as they are now --- */

static const struct keyring_key *key_for(const struct authority_round *r, const char *role, enum keyset_doc_role which)
{
	for (size_t i = r->ring.count; i-- > 0;) {
		const struct keyring_key *key = &r->ring.keys[i];
		const uint8_t *known = keyring_has_role(key, role) ? keyset_doc_find(&r->keyset, key->id, which) : NULL;

		if (known != NULL && memcmp(known, key->public_key, 32) == 0)
			return key;
	}
	return NULL;
}

static enum err read_keyset(struct authority_round *r)
{
	struct envelope envelope;
	enum err e = files_read(r->a->out, "keyset", ENVELOPE_MAX, &r->arena, &r->keyset_bytes);

	if (e == ERR_OK && (envelope_read(r->keyset_bytes, &envelope) != ENVELOPE_GOOD ||
			    keyset_doc_read(envelope.payload, &r->json_faults, &r->keyset) != ERR_OK))
		e = ERR_INVALID;
	return e;
}

/* Finish it also on failure. */
static enum err round_begin(struct authority_round *r, struct authority *a, uint64_t wall_ms, char out_reason[KEYRING_REASON_MAX])
{
	enum err e;

	*r = (struct authority_round){ .a = a, .wall_ms = wall_ms };
	arena_init(&r->arena, 0);
	json_faults_init(&r->json_faults, &r->arena);
	e = keyring_open(&r->ring, a->options.keys, false, out_reason);
	if (e != ERR_OK)
		return e;
	e = read_keyset(r);
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

static void round_finish(struct authority_round *r)
{
	keyring_finish(&r->ring);
	arena_finish(&r->arena);
}

bool authority_has_new_keyset(struct authority *a)
{
	struct authority_round r = { .a = a };
	bool is_new;

	arena_init(&r.arena, 0);
	json_faults_init(&r.json_faults, &r.arena);
	is_new = read_keyset(&r) == ERR_OK && r.keyset.version != a->published_keyset;
	arena_finish(&r.arena);
	return is_new;
}

/* --- one cell --- */

/* Payloads that the policy root has as documents. */
static enum err keep_documents(struct authority_round *r)
{
	const char *const *names;
	size_t count;
	enum err e = files_list(r->a->root, "rulesets", ".json", &r->cell_arena, &names, &count);

	for (size_t i = 0; i < count && e == ERR_OK; i++) {
		char path[512];
		struct ruleset_doc doc;
		struct text text;
		uint8_t sha256[32];

		snprintf(path, sizeof(path), "rulesets/%s.json", names[i]);
		e = files_read(r->a->root, path, ENVELOPE_PAYLOAD_MAX, &r->cell_arena, &text);
		if (e != ERR_OK)
			break;
		if (ruleset_doc_read(text, &r->json_faults, &doc) == ERR_OK)
			e = authority_keep_ruleset(r, text, sha256);
		else
			parse_take_json_faults(path, &r->json_faults, r->faults);
		json_faults_init(&r->json_faults, &r->arena);
	}
	return e;
}

static enum err read_preset(void *arg, const struct preset *preset, struct arena *arena, struct text *out_text,
			    struct source_stamp *out_stamp, char out_reason[SOURCE_REASON_MAX])
{
	struct authority_round *r = arg;
	enum err e = files_read(r->a->root, preset->file, SOURCE_MAX, arena, out_text);

	*out_stamp = (struct source_stamp){ 0 };
	snprintf(out_reason, SOURCE_REASON_MAX, "the preset cannot be read: %s", err_text(e));
	return e;
}

static enum err keep_leases(struct authority_round *r, const char *const *names, size_t count, const char *ending)
{
	enum err e = ERR_OK;

	for (size_t i = 0; i < count && e == ERR_OK; i++) {
		char path[512];

		snprintf(path, sizeof(path), "%s/%s%s", r->cell->leases, names[i], ending);
		e = authority_keep_lease(r, path);
		if (e == ERR_INVALID || e == ERR_NOT_FOUND || e == ERR_LIMIT) {
			r->counts.faulty++;
			e = ERR_OK;
		}
	}
	return e;
}

static enum err keep_all_leases(struct authority_round *r)
{
	const char *const *policies, *const *documents;
	size_t policy_count, document_count;
	enum err e = files_list(r->a->root, r->cell->leases, ".policy", &r->cell_arena, &policies, &policy_count);

	if (e == ERR_OK)
		e = files_list(r->a->root, r->cell->leases, ".json", &r->cell_arena, &documents, &document_count);
	if (e != ERR_OK)
		return e;
	r->entry_room = policy_count + document_count;
	if (r->entry_room > MANIFEST_DOC_LEASES_MAX)
		return ERR_LIMIT;
	r->entries = arena_take_array(&r->cell_arena, r->entry_room + 1, sizeof(*r->entries));
	if (r->entries == NULL)
		return ERR_NO_MEMORY;
	e = keep_leases(r, policies, policy_count, ".policy");
	return e == ERR_OK ? keep_leases(r, documents, document_count, ".json") : e;
}

static int by_id(const void *a, const void *b)
{
	const struct manifest_doc_entry *x = a, *y = b;

	return strcmp(x->id, y->id);
}

static bool is_entry(const struct authority_round *r, const char *id)
{
	struct manifest_doc_entry wanted = { .id = id };

	return r->entry_count > 0 && bsearch(&wanted, r->entries, r->entry_count, sizeof(wanted), by_id) != NULL;
}

/* May a document be there that no file is of any more? */
static bool may_withdraw(const struct authority_round *r)
{
	bool any = r->changes == NULL || r->counts.faulty > 0;

	for (const struct htab_node *n = htab_next(&r->cell->sources, NULL); n != NULL && !any; n = htab_next(&r->cell->sources, n))
		any = !CONTAINER_OF(n, const struct authority_source, node)->is_seen;
	return any;
}

/* Leases that are not meant any more. */
static enum err withdraw(struct authority_round *r)
{
	const char *const *names;
	size_t count;
	enum err e;

	if (!may_withdraw(r))
		return ERR_OK;
	e = files_list(r->cell->out, "l", "", &r->cell_arena, &names, &count);
	for (size_t i = 0; i < count && e == ERR_OK; i++) {
		char path[512];

		if (is_entry(r, names[i]))
			continue;
		snprintf(path, sizeof(path), "l/%s", names[i]);
		if (unlinkat(r->cell->out, path, 0) != 0 && errno != ENOENT)
			return ERR_SYSTEM;
		r->counts.withdrawn++;
	}
	return e;
}

/* Rulesets that nobody names any more; after the manifest, so that nobody misses one. */
static enum err sweep_rulesets(struct authority_round *r)
{
	const char *const *names;
	size_t count;
	enum err e = files_list(r->cell->out, "r", "", &r->cell_arena, &names, &count);

	for (size_t i = 0; i < count && e == ERR_OK; i++) {
		char path[512];
		uint8_t sha256[32];

		if (text_to_bytes_hex(text_of(names[i]), sha256, sizeof(sha256)) && authority_is_ruleset_used(r, sha256))
			continue;
		snprintf(path, sizeof(path), "r/%s", names[i]);
		if (unlinkat(r->cell->out, path, 0) != 0 && errno != ENOENT)
			return ERR_SYSTEM;
	}
	return e;
}

/* The manifest that is there, if it is one; its number even when all else differs. */
static enum err read_manifest(struct authority_round *r, struct manifest_doc *out_doc, bool *out_is_ours)
{
	struct authority_cell *c = r->cell;
	struct envelope envelope;
	struct text text;
	enum err e = files_read(c->out, "m", ENVELOPE_MAX, &r->cell_arena, &text);

	*out_doc = (struct manifest_doc){ .cell = "" };
	*out_is_ours = false;
	if (e != ERR_OK)
		return e == ERR_NO_MEMORY ? e : ERR_OK;
	if (envelope_read(text, &envelope) == ENVELOPE_GOOD &&
	    manifest_doc_read(envelope.payload, &r->json_faults, out_doc) == ERR_OK)
		*out_is_ours = envelope.signature_count == 1 && strcmp(envelope.signatures[0].key_id, r->manifest->id) == 0 &&
			       strcmp(out_doc->cell, c->name) == 0 &&
			       crypto_sha256(envelope.payload.at, envelope.payload.len, c->manifest_sha256) == ERR_OK;
	json_faults_init(&r->json_faults, &r->arena);
	return ERR_OK;
}

static enum err keep_manifest(struct authority_round *r)
{
	struct authority_cell *c = r->cell;
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
	c->manifest_seq = before.seq;
	if (is_ours && before.epoch == r->a->epoch && memcmp(before.root, root, 32) == 0)
		return ERR_OK;
	c->manifest_seq = authority_next_number(before.seq, r->wall_ms);
	crypto_base64url(root, sizeof(root), base64, sizeof(base64));
	len = snprintf(text, sizeof(text),
		       "{\"typ\":\"egress.manifest/1\",\"epoch\":%llu,\"cell\":\"%s\",\"seq\":%llu,\"iat_ms\":%llu,\"leases\":%zu,\"root\":\"%s\"}",
		       (unsigned long long)r->a->epoch, c->name, (unsigned long long)c->manifest_seq, (unsigned long long)r->wall_ms,
		       r->entry_count, base64);
	e = crypto_sha256(text, (size_t)len, c->manifest_sha256);
	return e == ERR_OK ? authority_write(r, c->out, ENVELOPE_MANIFEST, "m", (struct text){ text, (size_t)len }, r->manifest) : e;
}

static enum err make_folders(const struct authority_cell *c)
{
	if ((mkdirat(c->out, "l", 0755) != 0 && errno != EEXIST) || (mkdirat(c->out, "r", 0755) != 0 && errno != EEXIST))
		return ERR_SYSTEM;
	return ERR_OK;
}

/* A cell's folder is complete in itself. */
static enum err copy_keyset(struct authority_round *r)
{
	struct text there;
	enum err e;

	if (r->cell->out == r->a->out)
		return ERR_OK;
	e = files_read(r->cell->out, "keyset", ENVELOPE_MAX, &r->cell_arena, &there);
	if (e == ERR_NO_MEMORY || (e == ERR_OK && text_equal(there, r->keyset_bytes)))
		return e;
	return files_write(r->cell->out, "keyset", r->keyset_bytes.at, r->keyset_bytes.len, 0644);
}

static enum err add_stamps(struct authority_round *r, const char *folder, const char *ending, struct buf *out)
{
	const char *const *names;
	size_t count;
	enum err e = files_list(r->a->root, folder, ending, &r->arena, &names, &count);

	for (size_t i = 0; i < count && e == ERR_OK; i++) {
		struct authority_stamp stamp = { 0 };
		char path[512];

		snprintf(path, sizeof(path), "%s/%s%s", folder, names[i], ending);
		authority_look(r->a->root, path, &stamp);
		e = buf_append(out, path, strlen(path) + 1);
		if (e == ERR_OK)
			e = buf_append(out, &stamp, sizeof(stamp));
	}
	return e;
}

/* A digest of all that a document depends on beside its own file. */
static enum err read_context(struct authority_round *r, uint8_t out_context[32])
{
	uint64_t numbers[] = { r->a->epoch, r->a->options.lifetime_ms, r->a->options.report_allowed };
	struct buf all;
	enum err e;

	buf_init(&all, 64u << 20);
	e = buf_append(&all, numbers, sizeof(numbers));
	if (e == ERR_OK)
		e = buf_append(&all, r->lease->public_key, 32);
	if (e == ERR_OK)
		e = add_stamps(r, "presets", ".policy", &all);
	if (e == ERR_OK)
		e = add_stamps(r, "rulesets", ".json", &all);
	if (e == ERR_OK)
		e = crypto_sha256(buf_data(&all), all.len, out_context);
	buf_finish(&all);
	return e;
}

/* Forget what is known of files: all of it, or of those that were not seen. */
static void forget_sources(struct authority_cell *c, bool all)
{
	struct htab_node *node = htab_next(&c->sources, NULL);

	while (node != NULL) {
		struct authority_source *s = CONTAINER_OF(node, struct authority_source, node);

		node = htab_next(&c->sources, node);
		if (all || !s->is_seen)
			authority_forget_source(c, s);
		else
			s->is_seen = false;
	}
}

static enum err publish_cell(struct authority_round *r, struct authority_cell *c, const uint8_t context[32])
{
	enum err e;

	r->cell = c;
	r->entries = NULL;
	r->entry_count = r->entry_room = 0;
	arena_init(&r->cell_arena, 0);
	htab_init(&r->ids);
	htab_init(&r->rulesets);
	if (memcmp(c->context, context, 32) != 0)
		forget_sources(c, true);
	memcpy(c->context, context, 32);
	e = make_folders(c);
	if (e == ERR_OK)
		e = copy_keyset(r);
	if (e == ERR_OK)
		e = keep_documents(r);
	if (e == ERR_OK)
		e = keep_all_leases(r);
	if (e == ERR_OK) {
		qsort(r->entries, r->entry_count, sizeof(*r->entries), by_id);
		e = withdraw(r);
	}
	if (e == ERR_OK)
		e = keep_manifest(r);
	if (e == ERR_OK)
		e = sweep_rulesets(r);
	r->counts.leases += r->entry_count;
	htab_finish(&r->ids);
	htab_finish(&r->rulesets);
	arena_finish(&r->cell_arena);
	forget_sources(c, false);
	return e;
}

/* --- all cells --- */

static struct authority_cell *find_cell(const struct authority *a, const char *name)
{
	struct list_node *node, *next;

	LIST_FOREACH(node, next, &a->cells) {
		struct authority_cell *c = CONTAINER_OF(node, struct authority_cell, node);

		if (strcmp(c->name, name) == 0)
			return c;
	}
	return NULL;
}

/* `leases` below the policy root become documents in `out`, which is taken over. */
static enum err add_cell(struct authority *a, const char *name, const char *leases, int out)
{
	struct authority_cell *c = out < 0 ? NULL : alloc_zeroed(sizeof(*c));

	if (c == NULL) {
		if (out >= 0 && out != a->out)
			close(out);
		return out < 0 ? ERR_SYSTEM : ERR_NO_MEMORY;
	}
	snprintf(c->name, sizeof(c->name), "%s", name);
	snprintf(c->leases, sizeof(c->leases), "%s", leases);
	c->out = out;
	htab_init(&c->sources);
	list_push_back(&a->cells, &c->node);
	return ERR_OK;
}

/* Cells that the policy root has now; those that it had stay, and without leases they are empty. */
static enum err find_cells(struct authority_round *r)
{
	struct authority *a = r->a;
	const char *const *names;
	size_t count;
	enum err e = files_list(a->root, CELLS_FOLDER, "", &r->arena, &names, &count);

	if (e == ERR_OK && mkdirat(a->out, CELLS_FOLDER, 0755) != 0 && errno != EEXIST)
		e = ERR_SYSTEM;
	for (size_t i = 0; i < count && e == ERR_OK; i++) {
		char folder[LEASE_DOC_ID_MAX + 16], leases[LEASE_DOC_ID_MAX + 32];

		if (!lease_doc_id_is_valid(text_of(names[i])) || find_cell(a, names[i]) != NULL)
			continue;
		if (a->cells.count == CELLS_MAX)
			return ERR_LIMIT;
		snprintf(folder, sizeof(folder), CELLS_FOLDER "/%s", names[i]);
		snprintf(leases, sizeof(leases), CELLS_FOLDER "/%s/leases", names[i]);
		if (mkdirat(a->out, folder, 0755) != 0 && errno != EEXIST)
			return ERR_SYSTEM;
		e = add_cell(a, names[i], leases, openat(a->out, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	}
	return e;
}

enum err authority_publish(struct authority *a, uint64_t wall_ms, const struct authority_changes *changes, struct fault_list *faults,
			   struct authority_counts *out_counts,
			   char out_reason[KEYRING_REASON_MAX])
{
	struct authority_round r;
	struct list_node *node, *next;
	uint8_t context[32];
	enum err e = round_begin(&r, a, wall_ms, out_reason);

	library_init(&r.library, read_preset, &r, a->options.report_allowed);
	if (e != ERR_OK)
		goto out;
	r.faults = faults;
	r.changes = changes;
	e = a->options.cell == NULL ? find_cells(&r) : ERR_OK;
	if (e == ERR_OK)
		e = read_context(&r, context);
	LIST_FOREACH(node, next, &a->cells)
		if (e == ERR_OK)
			e = publish_cell(&r, CONTAINER_OF(node, struct authority_cell, node), context);
	if (e != ERR_OK)
		say(out_reason, e, "publishing");
	else
		a->published_keyset = r.keyset.version;
	*out_counts = r.counts;
out:
	library_finish(&r.library);
	round_finish(&r);
	return e;
}

/* --- beats --- */

static enum err add_text(struct buf *out, const char *text)
{
	return buf_append(out, text, strlen(text));
}

/* The cells of a group that have a manifest; none: an empty payload. */
static enum err print_beat(const struct authority_round *r, unsigned group, struct buf *out)
{
	const struct authority *a = r->a;
	struct list_node *node, *next;
	bool is_first = true;
	enum err e = ERR_OK;

	LIST_FOREACH(node, next, &a->cells) {
		const struct authority_cell *c = CONTAINER_OF(node, struct authority_cell, node);
		char text[512], base64[48];

		if (c->manifest_seq == 0 || beat_doc_group_of(c->name) != group || e != ERR_OK)
			continue;
		if (is_first) {
			snprintf(text, sizeof(text),
				 "{\"typ\":\"egress.beat/1\",\"epoch\":%llu,\"group\":%u,\"seq\":%llu,\"iat_ms\":%llu,\"exp_ms\":%llu,"
				 "\"keyset\":%llu,\"cells\":{",
				 (unsigned long long)a->epoch, group, (unsigned long long)a->beat_seq, (unsigned long long)r->wall_ms,
				 (unsigned long long)r->wall_ms + AUTHORITY_BEAT_LIFETIME_MS, (unsigned long long)a->keyset_version);
			e = add_text(out, text);
		}
		crypto_base64url(c->manifest_sha256, 32, base64, sizeof(base64));
		snprintf(text, sizeof(text), "%s\"%s\":[%llu,\"%s\"]", is_first ? "" : ",", c->name, (unsigned long long)c->manifest_seq, base64);
		if (e == ERR_OK)
			e = add_text(out, text);
		is_first = false;
	}
	return is_first || e != ERR_OK ? e : add_text(out, "}}");
}

/* One document of the group, in the folder of each of its cells. */
static enum err write_beat(struct authority_round *r, unsigned group)
{
	struct envelope_signer signer = { r->beat->id, r->beat->private_key };
	struct list_node *node, *next;
	uint8_t *bytes = NULL;
	struct buf payload;
	size_t len;
	enum err e;

	buf_init(&payload, ENVELOPE_PAYLOAD_MAX);
	e = print_beat(r, group, &payload);
	if (e == ERR_OK && payload.len > 0)
		e = envelope_write(ENVELOPE_BEAT, (struct text){ (const char *)buf_data(&payload), payload.len }, &signer, 1, &bytes, &len);
	LIST_FOREACH(node, next, &r->a->cells) {
		const struct authority_cell *c = CONTAINER_OF(node, struct authority_cell, node);

		if (e == ERR_OK && bytes != NULL && c->manifest_seq != 0 && beat_doc_group_of(c->name) == group)
			e = files_write(c->out, "beat", bytes, len, 0644);
	}
	buf_finish(&payload);
	alloc_free(bytes);
	return e;
}

enum err authority_beat(struct authority *a, uint64_t wall_ms, char out_reason[KEYRING_REASON_MAX])
{
	struct authority_round r;
	enum err e = round_begin(&r, a, wall_ms, out_reason);

	if (e == ERR_OK) {
		a->beat_seq = authority_next_number(a->beat_seq, wall_ms);
		for (unsigned group = 0; group < BEAT_DOC_GROUPS && e == ERR_OK; group++)
			e = write_beat(&r, group);
		if (e != ERR_OK)
			say(out_reason, e, "the beat");
	}
	round_finish(&r);
	return e;
}

/* The number to go on from after a restart. */
static void read_beat(struct authority_round *r, const struct authority_cell *c)
{
	struct envelope envelope;
	struct beat_doc doc;
	struct text text;

	if (files_read(c->out, "beat", ENVELOPE_MAX, &r->arena, &text) == ERR_OK && envelope_read(text, &envelope) == ENVELOPE_GOOD &&
	    beat_doc_read(envelope.payload, &r->json_faults, &doc) == ERR_OK && doc.seq > r->a->beat_seq)
		r->a->beat_seq = doc.seq;
}

static enum err open_cells(struct authority *a, char out_reason[KEYRING_REASON_MAX])
{
	struct authority_round r;
	struct list_node *node, *next;
	enum err e = round_begin(&r, a, 0, out_reason);

	if (e == ERR_OK) {
		e = a->options.cell == NULL ? find_cells(&r) : add_cell(a, a->options.cell, "leases", a->out);
		if (e != ERR_OK)
			say(out_reason, e, "the folders of cells");
	}
	LIST_FOREACH(node, next, &a->cells)
		if (e == ERR_OK)
			read_beat(&r, CONTAINER_OF(node, struct authority_cell, node));
	round_finish(&r);
	return e;
}

enum err authority_open(const struct authority_options *options, char out_reason[KEYRING_REASON_MAX], struct authority **out_authority)
{
	struct authority *a = alloc_zeroed(sizeof(*a));
	enum err e;

	if (a == NULL)
		return say(out_reason, ERR_NO_MEMORY, "authority");
	a->options = *options;
	list_init(&a->cells);
	a->root = open(options->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	a->out = open(options->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (a->root < 0 || a->out < 0)
		e = say(out_reason, ERR_SYSTEM, a->root < 0 ? options->root : options->out);
	else if (options->cell != NULL && !lease_doc_id_is_valid(text_of(options->cell)))
		e = say(out_reason, ERR_INVALID, "the cell's name");
	else if (crypto_random(&a->hash, sizeof(a->hash)) != ERR_OK)
		e = say(out_reason, ERR_SYSTEM, "random numbers");
	else
		e = open_cells(a, out_reason);
	if (e != ERR_OK) {
		authority_close(a);
		return e;
	}
	*out_authority = a;
	return ERR_OK;
}

void authority_close(struct authority *a)
{
	struct list_node *node;

	if (a == NULL)
		return;
	while ((node = list_pop_front(&a->cells)) != NULL) {
		struct authority_cell *c = CONTAINER_OF(node, struct authority_cell, node);

		forget_sources(c, true);
		htab_finish(&c->sources);
		if (c->out != a->out)
			close(c->out);
		alloc_free(c);
	}
	if (a->root >= 0)
		close(a->root);
	if (a->out >= 0)
		close(a->out);
	alloc_free(a);
}
