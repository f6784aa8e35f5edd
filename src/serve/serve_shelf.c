/* See serve_shelf.h. Called by serve_etcd. */
#include "serve/serve_shelf.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "document/beat_doc.h"
#include "document/envelope.h"
#include "document/manifest_doc.h"

enum err serve_shelf_create(struct serve_cell *cell, struct serve_shelf **out_shelf)
{
	struct serve_shelf *s = alloc_zeroed(sizeof(*s));
	enum err e;

	if (s == NULL)
		return ERR_NO_MEMORY;
	s->cell = cell;
	s->group = beat_doc_group_of(serve_cell_name(cell));
	e = serve_stock_init(&s->stock);
	if (e == ERR_OK)
		e = etcd_ranges(serve_cell_name(cell), s->ranges);
	if (e != ERR_OK) {
		serve_shelf_destroy(s);
		return e;
	}
	*out_shelf = s;
	return ERR_OK;
}

static void drop_plan(struct serve_shelf *s)
{
	serve_plan_finish(&s->plan);
	serve_edition_unref(s->planned);
	s->planned = NULL;
	s->done = 0;
}

static void set_published(struct serve_shelf *s, struct serve_edition *edition)
{
	serve_edition_unref(s->published);
	s->published = edition == NULL ? NULL : serve_edition_ref(edition);
}

void serve_shelf_destroy(struct serve_shelf *s)
{
	drop_plan(s);
	set_published(s, NULL);
	serve_stock_finish(&s->stock);
	alloc_free(s);
}

void serve_shelf_doubt(struct serve_shelf *s)
{
	drop_plan(s);
	set_published(s, NULL);
	s->is_listed = false;
	s->list_revision = 0;
	s->after_len = 0;
}

size_t serve_shelf_page_body(const struct serve_shelf *s, unsigned limit, char out_body[ETCD_BODY_MAX])
{
	return etcd_page_body(&s->ranges[ETCD_PART_CELL], (struct text){ s->after, s->after_len }, s->list_revision, limit, out_body);
}

/* What is no manifest may be replaced by any. */
static void note_manifest(struct serve_shelf *s, const struct etcd_pair *pair)
{
	struct manifest_doc doc;
	struct envelope envelope;
	struct json_faults faults;
	struct arena arena;

	arena_init(&arena, 0);
	json_faults_init(&faults, &arena);
	s->manifest_revision = pair->revision;
	s->epoch = s->seq = 0;
	if (envelope_read(pair->value, &envelope) == ENVELOPE_GOOD && envelope.type == ENVELOPE_MANIFEST &&
	    manifest_doc_read(envelope.payload, &faults, &doc) == ERR_OK &&
	    crypto_sha256(envelope.payload.at, envelope.payload.len, s->manifest_sha256) == ERR_OK) {
		s->epoch = doc.epoch;
		s->seq = doc.seq;
	}
	arena_finish(&arena);
}

static enum err note_pair(struct serve_shelf *s, const struct etcd_pair *pair)
{
	uint8_t sha256[32];
	struct text key;
	enum err e;

	/* The gateway of some versions shows keys beyond the range that was asked for. */
	if (!etcd_short_key(&s->ranges[ETCD_PART_CELL], ETCD_PART_CELL, pair->key, &key))
		return ERR_OK;
	if (text_is(key, "m"))
		note_manifest(s, pair);
	e = crypto_sha256(pair->value.at, pair->value.len, sha256);
	return e == ERR_OK ? serve_stock_note(&s->stock, key, sha256) : e;
}

enum err serve_shelf_take_page(struct serve_shelf *s, const struct etcd_page *page)
{
	const struct text *last = page->count > 0 ? &page->pairs[page->count - 1].key : NULL;
	enum err e = ERR_OK;

	if (s->list_revision == 0) {
		serve_stock_clear(&s->stock);
		s->manifest_revision = s->epoch = s->seq = 0;
		s->list_revision = page->revision;
	}
	for (size_t i = 0; i < page->count && e == ERR_OK; i++)
		e = note_pair(s, &page->pairs[i]);
	if (e == ERR_OK && page->has_more && last->len >= sizeof(s->after))
		e = ERR_LIMIT;
	if (e != ERR_OK)
		return e;
	if (page->has_more) {
		memcpy(s->after, last->at, last->len);
		s->after_len = last->len;
		return ERR_OK;
	}
	s->is_listed = true;
	s->list_revision = 0;
	s->after_len = 0;
	return ERR_OK;
}

bool serve_shelf_is_behind(const struct serve_shelf *s)
{
	const struct serve_edition *ours = serve_cell_edition(s->cell);

	if (s->epoch != ours->epoch)
		return s->epoch > ours->epoch;
	if (s->seq != ours->seq)
		return s->seq > ours->seq;
	return memcmp(s->manifest_sha256, ours->manifest_sha256, 32) != 0;
}

bool serve_shelf_is_due(const struct serve_shelf *s)
{
	return s->is_listed && s->published != serve_cell_edition(s->cell) && !serve_shelf_is_behind(s);
}

bool serve_shelf_is_current(const struct serve_shelf *s)
{
	return s->published != NULL && memcmp(s->published->manifest_sha256, serve_cell_edition(s->cell)->manifest_sha256, 32) == 0;
}

static enum err make_plan(struct serve_shelf *s)
{
	struct serve_edition *edition = serve_cell_edition(s->cell);
	enum err e;

	if (s->planned == edition)
		return ERR_OK;
	drop_plan(s);
	e = serve_plan_make(&s->stock, edition, &s->plan);
	if (e == ERR_OK)
		s->planned = serve_edition_ref(edition);
	return e;
}

static struct text long_key(const struct serve_shelf *s, const char *key, char out_text[ETCD_KEY_MAX + FRAMES_KEY_MAX])
{
	int len = snprintf(out_text, ETCD_KEY_MAX + FRAMES_KEY_MAX, "%s%s", s->ranges[ETCD_PART_CELL].key, key);

	return (struct text){ out_text, (size_t)len };
}

enum err serve_shelf_write(struct serve_shelf *s, struct etcd_txn *txn, size_t *out_end)
{
	char room[ETCD_KEY_MAX + FRAMES_KEY_MAX];
	enum err e = make_plan(s);
	size_t end;

	if (e != ERR_OK)
		return e;
	end = serve_plan_cut(&s->plan, s->done);
	etcd_txn_compare(txn, long_key(s, "m", room), s->manifest_revision);
	for (size_t i = s->done; i < end; i++) {
		const struct serve_op *op = &s->plan.ops[i];
		struct text key = long_key(s, op->key, room);

		if (op->doc != NULL)
			etcd_txn_put(txn, key, op->doc->envelope);
		else
			etcd_txn_delete(txn, key);
	}
	*out_end = end;
	return ERR_OK;
}

enum err serve_shelf_took(struct serve_shelf *s, size_t end, uint64_t revision)
{
	enum err e = ERR_OK;

	for (; s->done < end && e == ERR_OK; s->done++) {
		const struct serve_op *op = &s->plan.ops[s->done];

		e = serve_stock_note(&s->stock, text_of(op->key), op->doc == NULL ? NULL : op->doc->sha256);
		if (op->doc == NULL || strcmp(op->key, "m") != 0)
			continue;
		s->manifest_revision = revision;
		s->epoch = s->planned->epoch;
		s->seq = s->planned->seq;
		memcpy(s->manifest_sha256, s->planned->manifest_sha256, 32);
	}
	if (e == ERR_OK && s->done == s->plan.count) {
		set_published(s, s->planned);
		drop_plan(s);
	}
	return e;
}
