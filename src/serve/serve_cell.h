/*
 * The documents of one cell as an authority writes them into a folder, for those who hand them on: told only when they add up to their
 * manifest, as editions that never change. Believes the folder; proxies believe signatures.
 */
#ifndef EGRESS_SERVE_SERVE_CELL_H
#define EGRESS_SERVE_SERVE_CELL_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/refcount.h"
#include "base/text.h"
#include "document/lease_doc.h"
#include "net/loop.h"
#include "store/folder_notify.h"

/* One document. Counted and immutable; all that it holds lies in one block. */
struct serve_doc {
	struct refcount refs;
	const char *key;         /* "keyset", "m", "l/<lease>", "r/<digest>" */
	struct text envelope;
	uint64_t rev;            /* of a lease */
	uint8_t payload_sha256[32], sha256[32]; /* of its payload; of the whole envelope */
};
struct serve_doc *serve_doc_ref(struct serve_doc *doc);
/* Accepts NULL. */
void serve_doc_unref(struct serve_doc *doc);

#define SERVE_CURSOR_MAX 64

/* All documents of the cell at one moment, the beat apart. Counted and immutable. */
struct serve_edition {
	struct refcount refs;
	char cursor[SERVE_CURSOR_MAX + 1]; /* names it among all editions of this cell, also across restarts */
	uint64_t epoch, seq;               /* of the manifest */
	uint8_t manifest_sha256[32];       /* of its payload */
	uint64_t keyset_version;
	unsigned nth;                      /* among those of the same manifest and keyset */
	struct serve_doc **docs;           /* owned array of counted; by key */
	size_t count;
};
struct serve_edition *serve_edition_ref(struct serve_edition *e);
/* Accepts NULL. */
void serve_edition_unref(struct serve_edition *e);
/* The document of a key; NULL: none. */
struct serve_doc *serve_edition_find(const struct serve_edition *e, const char *key);

struct serve_cell;

/* From the loop, or from serve_cell_open. */
struct serve_cell_events {
	void (*on_edition)(void *arg, struct serve_cell *c); /* there is another one */
	void (*on_beat)(void *arg, struct serve_cell *c);    /* a beat that names this edition's manifest */
};

/* `folder` is borrowed for the call, `notify` until close (NULL: one of its own). SYSTEM, NO_MEMORY. */
enum err serve_cell_open(struct loop *loop, const char *folder, struct folder_notify *notify, const struct serve_cell_events *events, void *arg,
			 struct serve_cell **out_cell) ATTR_MUST_CHECK;
/* Accepts NULL. */
void serve_cell_close(struct serve_cell *c);
/* As its manifest says; "" before the first edition. */
const char *serve_cell_name(const struct serve_cell *c);
/* Borrowed until the next event; NULL: nothing added up so far. */
struct serve_edition *serve_cell_edition(const struct serve_cell *c);
/* The newest beat's envelope and number, borrowed until the next event; empty: none names what is here. */
struct text serve_cell_beat(const struct serve_cell *c, uint64_t *out_seq);

#endif
