/*
 * A folder's frames gathered into editions. Promises that an edition's leases are those of its manifest, and that a beat is told only with
 * the manifest that it names; a writer who is in the middle of a change is waited for. Knows no store and no client.
 */
#include "serve/serve_cell.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/hash.h"
#include "base/htab.h"
#include "base/log.h"
#include "document/beat_doc.h"
#include "document/envelope.h"
#include "document/keyset_doc.h"
#include "document/manifest_doc.h"
#include "store/frames_file.h"

#define MISSES_BEFORE_WORDS 3

/* A document that is in the folder now. */
struct held {
	struct htab_node node;
	struct serve_doc *doc; /* counted */
};

struct serve_cell {
	struct frames_source *source;           /* owned */
	const struct serve_cell_events *events; /* borrowed, static */
	void *arg;                              /* borrowed */
	struct hash_key key;
	struct htab held;                       /* of struct held, owned */
	bool has_changed;                       /* since the last edition was tried */
	char name[LEASE_DOC_ID_MAX + 1];
	struct serve_edition *edition;          /* counted; NULL: none yet */
	char *beat;                             /* owned: the envelope; NULL: none */
	size_t beat_len;
	uint64_t beat_seq;                      /* of the one that was told */
	bool is_beat_told;
	unsigned misses;                        /* beats in a row that named something else */
	struct log_limit complaint;
};

static bool has_key(const struct htab_node *node, const void *key)
{
	return strcmp(CONTAINER_OF(node, const struct held, node)->doc->key, key) == 0;
}

static struct held *find_held(const struct serve_cell *c, const char *key)
{
	struct htab_node *node = htab_find(&c->held, hash_bytes(&c->key, key, strlen(key)), has_key, key);

	return node == NULL ? NULL : CONTAINER_OF(node, struct held, node);
}

static void drop(struct serve_cell *c, struct held *held)
{
	htab_remove(&c->held, &held->node);
	serve_doc_unref(held->doc);
	alloc_free(held);
}

static void drop_all(struct serve_cell *c)
{
	struct htab_node *node, *next;

	HTAB_FOREACH (node, next, &c->held)
		drop(c, CONTAINER_OF(node, struct held, node));
}

static enum envelope_type type_of(const char *key)
{
	if (strcmp(key, "keyset") == 0)
		return ENVELOPE_KEYSET;
	if (strcmp(key, "m") == 0)
		return ENVELOPE_MANIFEST;
	return key[0] == 'l' ? ENVELOPE_LEASE : ENVELOPE_RULESET;
}

/* NULL: no document of its key's kind, or no memory. */
static struct serve_doc *make_doc(struct text key, struct text bytes)
{
	struct serve_doc *doc = alloc_zeroed(sizeof(*doc) + key.len + 1 + bytes.len);
	struct envelope envelope;
	char *room;

	if (doc == NULL)
		return NULL;
	room = (char *)(doc + 1);
	memcpy(room, key.at, key.len);
	memcpy(room + key.len + 1, bytes.at, bytes.len);
	refcount_init(&doc->refs);
	doc->key = room;
	doc->envelope = (struct text){ room + key.len + 1, bytes.len };
	if (envelope_read(doc->envelope, &envelope) == ENVELOPE_GOOD && envelope.type == type_of(doc->key) &&
	    crypto_sha256(envelope.payload.at, envelope.payload.len, doc->payload_sha256) == ERR_OK &&
	    crypto_sha256(bytes.at, bytes.len, doc->sha256) == ERR_OK &&
	    (envelope.type != ENVELOPE_LEASE || lease_doc_rev(envelope.payload, &doc->rev)))
		return doc;
	alloc_free(doc);
	return NULL;
}

static void hold(struct serve_cell *c, struct serve_doc *doc)
{
	struct held *held = alloc_zeroed(sizeof(*held));

	if (held == NULL || htab_insert(&c->held, &held->node, hash_bytes(&c->key, doc->key, strlen(doc->key))) != ERR_OK) {
		alloc_free(held);
		serve_doc_unref(doc);
		return;
	}
	held->doc = doc;
}

static void on_snap_begin(void *arg)
{
	struct serve_cell *c = arg;

	drop_all(c);
	c->has_changed = true;
}

static void on_put(void *arg, struct text key, struct text envelope)
{
	struct serve_cell *c = arg;
	struct serve_doc *doc = make_doc(key, envelope);
	char name[FRAMES_KEY_MAX + 1];
	struct held *before;

	snprintf(name, sizeof(name), "%.*s", (int)key.len, key.at);
	before = find_held(c, name);
	c->has_changed = true;
	if (before != NULL)
		drop(c, before);
	if (doc != NULL)
		hold(c, doc);
	else
		log_limited(&c->complaint, LOG_LEVEL_WARN, "document_not_served key=%s why=\"it is none of its kind\"", name);
}

static void on_del(void *arg, struct text key)
{
	struct serve_cell *c = arg;
	char name[FRAMES_KEY_MAX + 1];
	struct held *held;

	snprintf(name, sizeof(name), "%.*s", (int)key.len, key.at);
	held = find_held(c, name);
	c->has_changed = true;
	if (held != NULL)
		drop(c, held);
}

static void on_snap_end(void *arg)
{
}

static void on_mark(void *arg, struct text envelope)
{
	struct serve_cell *c = arg;
	char *copy = alloc_copy(envelope.at, envelope.len);

	if (copy == NULL)
		return;
	alloc_free(c->beat);
	c->beat = copy;
	c->beat_len = envelope.len;
	c->is_beat_told = false;
}

static int by_key(const void *a, const void *b)
{
	const struct serve_doc *const *x = a, *const *y = b;

	return strcmp((*x)->key, (*y)->key);
}

/* Everything that is held now, by key; nothing of it is checked. */
static struct serve_edition *gather(const struct serve_cell *c)
{
	struct serve_edition *e = alloc_zeroed(sizeof(*e));

	if (e == NULL)
		return NULL;
	refcount_init(&e->refs);
	e->docs = alloc_array(c->held.count + 1, sizeof(struct serve_doc *));
	if (e->docs == NULL) {
		alloc_free(e);
		return NULL;
	}
	for (struct htab_node *node = htab_next(&c->held, NULL); node != NULL; node = htab_next(&c->held, node))
		e->docs[e->count++] = serve_doc_ref(CONTAINER_OF(node, struct held, node)->doc);
	qsort(e->docs, e->count, sizeof(struct serve_doc *), by_key);
	return e;
}

static enum err root_of(const struct serve_edition *e, struct arena *arena, size_t *out_leases, uint8_t out_root[32])
{
	struct manifest_doc_entry *entries = arena_take_array(arena, e->count + 1, sizeof(*entries));
	size_t count = 0;

	if (entries == NULL)
		return ERR_NO_MEMORY;
	for (size_t i = 0; i < e->count; i++) {
		if (strncmp(e->docs[i]->key, "l/", 2) != 0)
			continue;
		entries[count].id = e->docs[i]->key + 2;
		entries[count].rev = e->docs[i]->rev;
		memcpy(entries[count++].sha256, e->docs[i]->payload_sha256, 32);
	}
	*out_leases = count;
	return manifest_doc_root(entries, count, out_root);
}

static struct text payload_of(const struct serve_doc *doc)
{
	const char *end = memchr(doc->envelope.at, '\n', doc->envelope.len);
	size_t header = end == NULL ? doc->envelope.len : (size_t)(end - doc->envelope.at) + 1;

	return (struct text){ doc->envelope.at + header, doc->envelope.len - header };
}

/* Number the edition by what it holds; false: its leases are not its manifest's, or a part is missing. */
static bool adds_up(struct serve_edition *e, struct arena *arena, const char **out_cell)
{
	struct serve_doc *keyset = serve_edition_find(e, "keyset"), *manifest = serve_edition_find(e, "m");
	struct keyset_doc keyset_doc;
	struct manifest_doc doc;
	struct json_faults faults;
	uint8_t root[32];
	size_t leases;

	json_faults_init(&faults, arena);
	if (keyset == NULL || manifest == NULL || keyset_doc_read(payload_of(keyset), &faults, &keyset_doc) != ERR_OK ||
	    manifest_doc_read(payload_of(manifest), &faults, &doc) != ERR_OK || root_of(e, arena, &leases, root) != ERR_OK ||
	    doc.leases != leases || memcmp(root, doc.root, sizeof(root)) != 0)
		return false;
	e->epoch = doc.epoch;
	e->seq = doc.seq;
	memcpy(e->manifest_sha256, manifest->payload_sha256, 32);
	e->keyset_version = keyset_doc.version;
	*out_cell = doc.cell;
	return true;
}

static bool is_same(const struct serve_edition *a, const struct serve_edition *b)
{
	if (a == NULL || a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->docs[i]->key, b->docs[i]->key) != 0 || memcmp(a->docs[i]->sha256, b->docs[i]->sha256, 32) != 0)
			return false;
	return true;
}

static void take_edition(struct serve_cell *c, struct serve_edition *e)
{
	const struct serve_edition *before = c->edition;

	if (before != NULL && before->epoch == e->epoch && before->seq == e->seq && before->keyset_version == e->keyset_version &&
	    memcmp(before->manifest_sha256, e->manifest_sha256, 32) == 0)
		e->nth = before->nth + 1;
	snprintf(e->cursor, sizeof(e->cursor), "%" PRIx64 ".%" PRIx64 ".%" PRIx64 ".%x", e->epoch, e->seq, e->keyset_version, e->nth);
	serve_edition_unref(c->edition);
	c->edition = e;
	c->events->on_edition(c->arg, c);
}

static void try_edition(struct serve_cell *c)
{
	struct serve_edition *e = gather(c);
	const char *cell;
	struct arena arena;

	if (e == NULL)
		return;
	arena_init(&arena, 0);
	c->has_changed = false;
	if (!adds_up(e, &arena, &cell) || is_same(c->edition, e)) {
		serve_edition_unref(e);
	} else if (c->name[0] != '\0' && strcmp(c->name, cell) != 0) {
		log_limited(&c->complaint, LOG_LEVEL_ERROR, "cell_changed_its_name from=%s to=%s", c->name, cell);
		serve_edition_unref(e);
	} else {
		snprintf(c->name, sizeof(c->name), "%s", cell);
		take_edition(c, e);
	}
	arena_finish(&arena);
}

/* Does the beat that waits name what is here? Then it is told, once. */
static void try_beat(struct serve_cell *c)
{
	const struct beat_doc_cell *named;
	struct envelope envelope;
	struct json_faults faults;
	struct beat_doc doc;
	struct arena arena;
	bool is_ours = false;

	if (c->beat == NULL || c->is_beat_told || c->edition == NULL)
		return;
	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	if (envelope_read((struct text){ c->beat, c->beat_len }, &envelope) == ENVELOPE_GOOD && envelope.type == ENVELOPE_BEAT &&
	    beat_doc_read(envelope.payload, &faults, &doc) == ERR_OK) {
		named = beat_doc_find(&doc, c->name);
		is_ours = named != NULL && named->seq == c->edition->seq &&
			  memcmp(named->manifest_sha256, c->edition->manifest_sha256, 32) == 0;
	}
	if (is_ours) {
		c->is_beat_told = true;
		c->beat_seq = doc.seq;
	}
	arena_finish(&arena);
	c->misses = is_ours ? 0 : c->misses + 1;
	if (is_ours) {
		c->events->on_beat(c->arg, c);
	} else if (c->misses % MISSES_BEFORE_WORDS == 0) {
		/* Once or twice it is a change that is being written. Else something was not noticed, or is not there. */
		log_limited(&c->complaint, LOG_LEVEL_WARN, "beat_not_served cell=%s why=\"what it names is not in the folder\"", c->name);
		frames_relist(c->source);
	}
}

static void on_settled(void *arg)
{
	struct serve_cell *c = arg;

	if (c->has_changed)
		try_edition(c);
	try_beat(c);
}

static void on_break(void *arg, enum frames_break why)
{
}

static const struct frames_events frames_events = {
	on_snap_begin, on_put, on_del, on_snap_end, on_mark, on_settled, on_break,
};

enum err serve_cell_open(struct loop *loop, const char *folder, struct folder_notify *notify, const struct serve_cell_events *events, void *arg,
			 struct serve_cell **out_cell)
{
	struct serve_cell *c = alloc_zeroed(sizeof(*c));
	enum err e;

	if (c == NULL)
		return ERR_NO_MEMORY;
	c->events = events;
	c->arg = arg;
	c->complaint = (struct log_limit){ .burst = 5, .interval_ms = 60000 };
	htab_init(&c->held);
	e = crypto_random(&c->key, sizeof(c->key));
	if (e == ERR_OK)
		e = frames_file_open(loop, folder, notify, &c->source);
	if (e == ERR_OK)
		e = frames_start(c->source, &frames_events, c);
	if (e != ERR_OK) {
		serve_cell_close(c);
		return e;
	}
	*out_cell = c;
	return ERR_OK;
}

void serve_cell_close(struct serve_cell *c)
{
	if (c == NULL)
		return;
	frames_close(c->source);
	drop_all(c);
	htab_finish(&c->held);
	serve_edition_unref(c->edition);
	alloc_free(c->beat);
	alloc_free(c);
}

const char *serve_cell_name(const struct serve_cell *c)
{
	return c->name;
}

struct serve_edition *serve_cell_edition(const struct serve_cell *c)
{
	return c->edition;
}

struct text serve_cell_beat(const struct serve_cell *c, uint64_t *out_seq)
{
	*out_seq = c->beat_seq;
	return c->beat == NULL || !c->is_beat_told ? (struct text){ "", 0 } : (struct text){ c->beat, c->beat_len };
}
