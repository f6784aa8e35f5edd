/* The bodies that are posted to etcd's JSON gateway, and the layout of keys in the store. Pure. */
#ifndef EGRESS_STORE_ETCD_REQUEST_H
#define EGRESS_STORE_ETCD_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"

#define ETCD_CELL_MAX 64
#define ETCD_KEY_MAX 256
#define ETCD_BODY_MAX 4096

/* What one proxy reads: /egress/v1/keyset, /egress/v1/c/<cell>/…, /egress/v1/beat/<group>. In the order in which they are listed. */
enum etcd_part { ETCD_PART_KEYSET, ETCD_PART_CELL, ETCD_PART_BEAT, ETCD_PART_COUNT };

struct etcd_range {
	char key[ETCD_KEY_MAX];
	char end[ETCD_KEY_MAX]; /* exclusive; "": this key alone */
};

/* INVALID: a cell that could reach beyond its prefix. */
enum err etcd_ranges(const char *cell, struct etcd_range out_ranges[ETCD_PART_COUNT]) ATTR_MUST_CHECK;
/* The short key of frames for what stands at `key`, borrowed from it; false: not of this part. */
bool etcd_short_key(const struct etcd_range *range, enum etcd_part part, struct text key, struct text *out_key);

/* A page of at most `limit` keys from `after` (exclusive; empty: from the start) at `revision` (0: now, linearizable). */
size_t etcd_page_body(const struct etcd_range *range, struct text after, uint64_t revision, unsigned limit,
		      char out_body[ETCD_BODY_MAX]);
/* One watch for each part, its number plus one as id, from the revision after `seen`. */
size_t etcd_watch_body(const struct etcd_range ranges[ETCD_PART_COUNT], const uint64_t seen[ETCD_PART_COUNT],
		       char out_body[ETCD_BODY_MAX]);
/*
 * A transaction, written piece by piece: begin; compares; operations; end. It is done only if every key compared was last changed in its
 * revision (0: it is not there). The first failure sticks in *out, and etcd_txn_end tells it.
 */
struct etcd_txn {
	struct buf body;
	bool has_compare, has_operation;
	enum err err;
};
void etcd_txn_begin(struct etcd_txn *txn, size_t body_max);
void etcd_txn_compare(struct etcd_txn *txn, struct text key, uint64_t revision);
void etcd_txn_put(struct etcd_txn *txn, struct text key, struct text value);
void etcd_txn_delete(struct etcd_txn *txn, struct text key);
/* LIMIT, NO_MEMORY. The body is in txn->body; finish it with buf_finish in any case. */
enum err etcd_txn_end(struct etcd_txn *txn) ATTR_MUST_CHECK;
/* LIMIT: too long; INVALID: characters that no name has. Secret: the caller wipes it. */
enum err etcd_login_body(const char *user, const char *password, char out_body[ETCD_BODY_MAX], size_t *out_len) ATTR_MUST_CHECK;

#endif
