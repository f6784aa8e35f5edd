/*
 * What it takes to make a store hold an edition: which keys are put and deleted, in which order and in how many transactions. Arithmetic;
 * knows no store.
 */
#ifndef EGRESS_SERVE_SERVE_PLAN_H
#define EGRESS_SERVE_SERVE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/htab.h"
#include "base/text.h"
#include "serve/serve_cell.h"
#include "store/frames.h"

#define SERVE_PLAN_OPS_MAX 100            /* of one transaction; etcd takes 128 */
#define SERVE_PLAN_BYTES_MAX (768u << 10) /* of its values; etcd takes 1.5 MiB in all */

/* What a store holds of a cell: keys and digests. */
struct serve_stock {
	struct hash_key key;
	struct htab known; /* owned nodes */
};
enum err serve_stock_init(struct serve_stock *s) ATTR_MUST_CHECK;
/* Also after a failed init. */
void serve_stock_finish(struct serve_stock *s);
void serve_stock_clear(struct serve_stock *s);
/* Note that `key` has a value with this digest, or (NULL) none. */
enum err serve_stock_note(struct serve_stock *s, struct text key, const uint8_t sha256[32]) ATTR_MUST_CHECK;

struct serve_op {
	const struct serve_doc *doc; /* put it; borrowed from the edition. NULL: delete `key` */
	char key[FRAMES_KEY_MAX + 1];
};

/* Rulesets, then leases, then deletions of leases, the manifest, and deletions of rulesets: what is named is there before what names it. */
struct serve_plan {
	struct serve_op *ops; /* owned */
	size_t count, room;
	size_t leases_at, manifest_end; /* ops[leases_at, manifest_end): the part that wants to be one transaction */
};
/* The keyset is none of its business. NO_MEMORY leaves it empty. */
enum err serve_plan_make(const struct serve_stock *stock, const struct serve_edition *edition, struct serve_plan *out_plan) ATTR_MUST_CHECK;
void serve_plan_finish(struct serve_plan *plan);
/* Where the transaction that begins at `from` ends: at most SERVE_PLAN_OPS_MAX later. */
size_t serve_plan_cut(const struct serve_plan *plan, size_t from);

#endif
