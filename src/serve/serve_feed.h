/*
 * What readers of one cell are told, as lines of the stream: everything there is, or what changed since a cursor, then each change and each
 * beat. Bounded memory however many readers there are and however slow; knows no socket.
 */
#ifndef EGRESS_SERVE_SERVE_FEED_H
#define EGRESS_SERVE_SERVE_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/refcount.h"
#include "base/text.h"
#include "serve/serve_cell.h"

#define SERVE_FEED_CHANGES_MAX 1024
#define SERVE_FEED_BYTES_MAX (32u << 20) /* of documents that only past changes hold */
#define SERVE_FEED_LINE_MAX (512u << 10) /* bytes of one line at most */

struct serve_step {
	struct serve_doc *doc; /* counted */
	bool is_gone;          /* only its key counts */
};

/* From one edition to the next: what is named stands before what names it. Counted and immutable. */
struct serve_change {
	struct refcount refs;
	char from[SERVE_CURSOR_MAX + 1], to[SERVE_CURSOR_MAX + 1];
	struct serve_step *steps; /* owned */
	size_t count;
	size_t bytes;             /* of their documents */
};

/* Of one cell; shared by its readers. */
struct serve_hub {
	struct serve_edition *edition;    /* counted; NULL: none yet */
	struct serve_change *changes[SERVE_FEED_CHANGES_MAX]; /* counted; a ring */
	uint64_t first, next;             /* numbers of the oldest change kept and of the next one */
	size_t bytes;
	char *beat;                       /* owned; NULL: none */
	size_t beat_len;
	uint64_t beat_nth;                /* beats so far */
};

void serve_hub_init(struct serve_hub *h);
void serve_hub_finish(struct serve_hub *h);
/* Another edition; without memory readers have to start over. */
void serve_hub_take_edition(struct serve_hub *h, struct serve_edition *edition);
enum err serve_hub_take_beat(struct serve_hub *h, struct text envelope) ATTR_MUST_CHECK;

/* Where one reader is. */
struct serve_feed {
	const struct serve_hub *hub;     /* borrowed */
	struct serve_edition *snapshot;  /* counted; being told; NULL: done */
	struct serve_change *change;     /* counted; likewise */
	size_t at;                       /* lines of it that were told */
	uint64_t next;                   /* number of the change after */
	uint64_t beat_nth;               /* beats that were told or came before */
	char cursor[SERVE_CURSOR_MAX + 1];
};

/* Begin after `cursor` (""; everything). NOT_FOUND: what changed since is not known any more; AGAIN: there is nothing to tell yet. */
enum err serve_feed_init(struct serve_feed *f, const struct serve_hub *hub, const char *cursor) ATTR_MUST_CHECK;
void serve_feed_finish(struct serve_feed *f);
/* Has it something to say now? A long poll may also ask whether there is more than the beat. */
bool serve_feed_has_news(const struct serve_feed *f);
bool serve_feed_has_changes(const struct serve_feed *f);
/*
 * Append whole lines until there are no more or `out` holds `enough` bytes. NOT_FOUND: the reader was so slow that changes are gone; LIMIT
 * and NO_MEMORY of `out`.
 */
enum err serve_feed_write(struct serve_feed *f, size_t enough, struct buf *out) ATTR_MUST_CHECK;
/* The newest beat again, if there is one: what a long poll ends with. */
enum err serve_feed_write_beat(struct serve_feed *f, struct buf *out) ATTR_MUST_CHECK;

#endif
