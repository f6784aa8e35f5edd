/*
 * See serve_feed.h. A cursor is told only with the last line of a change, so that who loses the stream in the middle is told the whole
 * change again. Called by serve_http.
 */
#include "serve/serve_feed.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "store/base64.h"
#include "store/frames.h"

#define HEAD_ROOM (FRAMES_KEY_MAX + 64)

static void unref_change(struct serve_change *c)
{
	if (c == NULL || !refcount_unref(&c->refs))
		return;
	for (size_t i = 0; i < c->count; i++)
		serve_doc_unref(c->steps[i].doc);
	alloc_free(c->steps);
	alloc_free(c);
}

static void add_step(struct serve_change *c, struct serve_doc *doc, bool is_gone)
{
	c->steps[c->count++] = (struct serve_step){ serve_doc_ref(doc), is_gone };
	c->bytes += doc->envelope.len;
}

/* Walk two editions beside each other and take what differs below one prefix: what is there now, or (of_gone) what was there before. */
static void collect(struct serve_change *c, const struct serve_edition *before, const struct serve_edition *now, const char *prefix,
		    bool of_gone)
{
	size_t b = 0, n = 0, len = strlen(prefix);

	while (b < before->count || n < now->count) {
		int order = b == before->count ? 1 : n == now->count ? -1 : strcmp(before->docs[b]->key, now->docs[n]->key);
		bool is_put = order > 0 || (order == 0 && memcmp(before->docs[b]->sha256, now->docs[n]->sha256, 32) != 0);

		if (!of_gone && is_put && strncmp(now->docs[n]->key, prefix, len) == 0)
			add_step(c, now->docs[n], false);
		if (of_gone && order < 0 && strncmp(before->docs[b]->key, prefix, len) == 0)
			add_step(c, before->docs[b], true);
		b += order <= 0;
		n += order >= 0;
	}
}

/* NULL: no memory. */
static struct serve_change *make_change(const struct serve_edition *before, const struct serve_edition *now)
{
	struct serve_change *c = alloc_zeroed(sizeof(*c));

	if (c == NULL)
		return NULL;
	refcount_init(&c->refs);
	c->steps = alloc_array(before->count + now->count + 1, sizeof(*c->steps));
	if (c->steps == NULL) {
		alloc_free(c);
		return NULL;
	}
	snprintf(c->from, sizeof(c->from), "%s", before->cursor);
	snprintf(c->to, sizeof(c->to), "%s", now->cursor);
	collect(c, before, now, "keyset", false);
	collect(c, before, now, "r/", false);
	collect(c, before, now, "l/", false);
	collect(c, before, now, "l/", true);
	collect(c, before, now, "m", false);
	collect(c, before, now, "r/", true);
	return c;
}

void serve_hub_init(struct serve_hub *h)
{
	*h = (struct serve_hub){ .edition = NULL };
}

static void forget_first(struct serve_hub *h)
{
	struct serve_change **c = &h->changes[h->first % SERVE_FEED_CHANGES_MAX];

	h->bytes -= (*c)->bytes;
	unref_change(*c);
	*c = NULL;
	h->first++;
}

void serve_hub_finish(struct serve_hub *h)
{
	while (h->first < h->next)
		forget_first(h);
	serve_edition_unref(h->edition);
	alloc_free(h->beat);
}

static void keep(struct serve_hub *h, struct serve_change *c)
{
	while (h->next - h->first == SERVE_FEED_CHANGES_MAX || (h->first < h->next && h->bytes + c->bytes > SERVE_FEED_BYTES_MAX))
		forget_first(h);
	h->changes[h->next % SERVE_FEED_CHANGES_MAX] = c;
	h->bytes += c->bytes;
	h->next++;
}

void serve_hub_take_edition(struct serve_hub *h, struct serve_edition *edition)
{
	struct serve_change *c = h->edition == NULL ? NULL : make_change(h->edition, edition);

	if (c != NULL) {
		keep(h, c);
	} else if (h->edition != NULL) {
		/* A number that nobody can find: whoever stands before it has lost its place. */
		while (h->first < h->next)
			forget_first(h);
		h->first = ++h->next;
	}
	serve_edition_unref(h->edition);
	h->edition = serve_edition_ref(edition);
}

enum err serve_hub_take_beat(struct serve_hub *h, struct text envelope)
{
	char *copy = alloc_copy(envelope.at, envelope.len);

	if (copy == NULL)
		return ERR_NO_MEMORY;
	alloc_free(h->beat);
	h->beat = copy;
	h->beat_len = envelope.len;
	h->beat_nth++;
	return ERR_OK;
}

enum err serve_feed_init(struct serve_feed *f, const struct serve_hub *hub, const char *cursor)
{
	*f = (struct serve_feed){ .hub = hub };
	if (hub->edition == NULL)
		return ERR_AGAIN;
	f->next = hub->next;
	snprintf(f->cursor, sizeof(f->cursor), "%s", hub->edition->cursor);
	if (cursor[0] == '\0') {
		f->snapshot = serve_edition_ref(hub->edition);
		return ERR_OK;
	}
	if (strcmp(cursor, hub->edition->cursor) == 0)
		return ERR_OK;
	for (uint64_t n = hub->first; n < hub->next; n++) {
		if (strcmp(cursor, hub->changes[n % SERVE_FEED_CHANGES_MAX]->from) != 0)
			continue;
		f->next = n;
		snprintf(f->cursor, sizeof(f->cursor), "%s", cursor);
		return ERR_OK;
	}
	return ERR_NOT_FOUND;
}

void serve_feed_finish(struct serve_feed *f)
{
	serve_edition_unref(f->snapshot);
	unref_change(f->change);
	f->snapshot = NULL;
	f->change = NULL;
}

bool serve_feed_has_changes(const struct serve_feed *f)
{
	return f->snapshot != NULL || f->change != NULL || f->next < f->hub->next;
}

bool serve_feed_has_news(const struct serve_feed *f)
{
	return serve_feed_has_changes(f) || f->beat_nth < f->hub->beat_nth;
}

static enum err add(struct buf *out, const char *text)
{
	return buf_append(out, text, strlen(text));
}

static enum err add_coded(struct buf *out, struct text bytes)
{
	size_t len = BASE64_LEN(bytes.len);
	uint8_t *room = buf_reserve(out, len + 1);

	if (room == NULL)
		return buf_room(out) < len + 1 ? ERR_LIMIT : ERR_NO_MEMORY;
	base64_encode(bytes.at, bytes.len, (char *)room);
	buf_commit(out, len);
	return ERR_OK;
}

static enum err end_line(struct buf *out, const char *cursor)
{
	char text[SERVE_CURSOR_MAX + 32];

	snprintf(text, sizeof(text), cursor == NULL ? "%s}\n" : ",\"cursor\":\"%s\"}\n", cursor == NULL ? "" : cursor);
	return add(out, text);
}

/* Keys and cursors are plain; nothing in them asks for escapes. */
static enum err put_line(struct buf *out, const struct serve_doc *doc, const char *cursor)
{
	char head[HEAD_ROOM];
	enum err e;

	snprintf(head, sizeof(head), "{\"f\":\"put\",\"k\":\"%s\",\"env\":\"", doc->key);
	e = add(out, head);
	if (e == ERR_OK)
		e = add_coded(out, doc->envelope);
	if (e == ERR_OK)
		e = add(out, "\"");
	return e == ERR_OK ? end_line(out, cursor) : e;
}

static enum err del_line(struct buf *out, const struct serve_doc *doc, const char *cursor)
{
	char head[HEAD_ROOM];
	enum err e;

	snprintf(head, sizeof(head), "{\"f\":\"del\",\"k\":\"%s\"", doc->key);
	e = add(out, head);
	return e == ERR_OK ? end_line(out, cursor) : e;
}

enum err serve_feed_write_beat(struct serve_feed *f, struct buf *out)
{
	const struct serve_hub *h = f->hub;
	enum err e = ERR_OK;

	f->beat_nth = h->beat_nth;
	if (h->beat == NULL)
		return ERR_OK;
	e = add(out, "{\"f\":\"mark\",\"env\":\"");
	if (e == ERR_OK)
		e = add_coded(out, (struct text){ h->beat, h->beat_len });
	if (e == ERR_OK)
		e = add(out, "\"");
	return e == ERR_OK ? end_line(out, f->cursor) : e;
}

static enum err snapshot_line(struct serve_feed *f, struct buf *out)
{
	struct serve_edition *s = f->snapshot;
	enum err e;

	if (f->at == 0) {
		e = add(out, "{\"f\":\"snap_begin\"}\n");
	} else if (f->at <= s->count) {
		e = put_line(out, s->docs[f->at - 1], NULL);
	} else {
		e = add(out, "{\"f\":\"snap_end\"");
		if (e == ERR_OK)
			e = end_line(out, s->cursor);
	}
	if (e != ERR_OK || f->at++ <= s->count)
		return e;
	serve_edition_unref(s);
	f->snapshot = NULL;
	f->at = 0;
	return ERR_OK;
}

static enum err change_line(struct serve_feed *f, struct buf *out)
{
	struct serve_change *c = f->change;
	const char *cursor = f->at + 1 == c->count ? c->to : NULL;
	const struct serve_step *step = &c->steps[f->at];
	enum err e = step->is_gone ? del_line(out, step->doc, cursor) : put_line(out, step->doc, cursor);

	if (e != ERR_OK || ++f->at < c->count)
		return e;
	snprintf(f->cursor, sizeof(f->cursor), "%s", c->to);
	unref_change(c);
	f->change = NULL;
	f->at = 0;
	return ERR_OK;
}

static enum err next_change(struct serve_feed *f)
{
	if (f->next < f->hub->first)
		return ERR_NOT_FOUND;
	f->change = f->hub->changes[f->next % SERVE_FEED_CHANGES_MAX];
	refcount_ref(&f->change->refs);
	f->next++;
	return ERR_OK;
}

enum err serve_feed_write(struct serve_feed *f, size_t enough, struct buf *out)
{
	enum err e = ERR_OK;

	while (e == ERR_OK && out->len < enough && serve_feed_has_news(f)) {
		if (f->snapshot != NULL)
			e = snapshot_line(f, out);
		else if (f->change != NULL)
			e = change_line(f, out);
		else if (f->next < f->hub->next)
			e = next_change(f);
		else
			e = serve_feed_write_beat(f, out);
	}
	return e;
}
