/*
 * One cell in a store, as far as its publisher knows: what is there, what is to be there, and what is written next. No request is made here,
 * and nothing that a newer manifest stands above is overwritten.
 */
#ifndef EGRESS_SERVE_SERVE_SHELF_H
#define EGRESS_SERVE_SERVE_SHELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "serve/serve_cell.h"
#include "serve/serve_plan.h"
#include "store/etcd_line.h"
#include "store/etcd_request.h"

struct serve_shelf {
	struct list_node node;
	struct serve_cell *cell;            /* borrowed */
	struct etcd_range ranges[ETCD_PART_COUNT];
	unsigned group;

	/* What the store holds; true only while is_listed. */
	struct serve_stock stock;
	bool is_listed;
	uint64_t manifest_revision;         /* 0: it has none */
	uint64_t epoch, seq;                /* of that one */
	uint8_t manifest_sha256[32];
	uint64_t list_again_ms;

	/* A list that goes on. */
	char after[ETCD_KEY_MAX];
	size_t after_len;
	uint64_t list_revision;             /* 0: before its first page */

	struct serve_edition *published;    /* counted; the store holds just this; NULL: it does not, as far as we know */
	struct serve_edition *planned;      /* counted; NULL: no plan */
	struct serve_plan plan;
	size_t done;                        /* operations of it */
	bool is_behind_told;
	unsigned left_out;                  /* beats in a row of its group that did not name it */
};

/* INVALID: a cell's name that no store can hold. */
enum err serve_shelf_create(struct serve_cell *cell, struct serve_shelf **out_shelf) ATTR_MUST_CHECK;
void serve_shelf_destroy(struct serve_shelf *s);

/* All that is known is in doubt: list again. */
void serve_shelf_doubt(struct serve_shelf *s);
size_t serve_shelf_page_body(const struct serve_shelf *s, unsigned limit, char out_body[ETCD_BODY_MAX]);
/* A page of the list. LIMIT, NO_MEMORY; sets is_listed after the last one. */
enum err serve_shelf_take_page(struct serve_shelf *s, const struct etcd_page *page) ATTR_MUST_CHECK;

/* The store has a manifest that ours may not replace. */
bool serve_shelf_is_behind(const struct serve_shelf *s);
/* Is there something to write? */
bool serve_shelf_is_due(const struct serve_shelf *s);
/* Is the manifest of the folder the one that the store has, whole? */
bool serve_shelf_is_current(const struct serve_shelf *s);
/* Write the next transaction; its operations end at *out_end. */
enum err serve_shelf_write(struct serve_shelf *s, struct etcd_txn *txn, size_t *out_end) ATTR_MUST_CHECK;
/* It was done, in `revision`. */
enum err serve_shelf_took(struct serve_shelf *s, size_t end, uint64_t revision) ATTR_MUST_CHECK;

#endif
