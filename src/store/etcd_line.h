/*
 * What etcd's JSON gateway answers, read: one page of a list, one line of a watch, a token. Members that are not ours to know are skipped,
 * for the gateway's versions differ; what we do read must be of its kind. Pure, hostile input: fuzzed.
 */
#ifndef EGRESS_STORE_ETCD_LINE_H
#define EGRESS_STORE_ETCD_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"

#define ETCD_LINE_MAX (1u << 20)  /* bytes of a watch line */
#define ETCD_PAGE_MAX (16u << 20) /* bytes of a page */
#define ETCD_PAGE_KEYS_MAX 500
#define ETCD_EVENTS_MAX 1000      /* of one line */

struct etcd_pair {
	struct text key, value; /* decoded */
	uint64_t revision;      /* of its last change */
	bool is_deleted;        /* of events alone */
};

struct etcd_page {
	uint64_t revision; /* of the store when it answered */
	const struct etcd_pair *pairs;
	size_t count;
	bool has_more;
};

/* The reasons that a gateway gives for not doing what was asked. */
enum etcd_refusal { ETCD_REFUSAL_OTHER, ETCD_REFUSAL_TOKEN, ETCD_REFUSAL_COMPACTED, ETCD_REFUSAL_NO_LEADER, ETCD_REFUSAL_FUTURE };

enum etcd_watch_kind { ETCD_WATCH_EVENTS, ETCD_WATCH_CREATED, ETCD_WATCH_CANCELED, ETCD_WATCH_REFUSED };

struct etcd_watch {
	enum etcd_watch_kind kind;    /* EVENTS without any is progress, which proves nothing */
	enum etcd_refusal refusal;    /* of CANCELED and REFUSED */
	uint64_t watch_id, revision;
	const struct etcd_pair *pairs;
	size_t count;
};

/* Everything in *out lives in `arena`. INVALID: not such an answer; NO_MEMORY. */
enum err etcd_page_read(struct text body, struct arena *arena, struct etcd_page *out_page) ATTR_MUST_CHECK;
enum err etcd_watch_read(struct text line, struct arena *arena, struct etcd_watch *out_watch) ATTR_MUST_CHECK;
/* Whether a transaction was done, and in which revision (of the store, when it was not). */
enum err etcd_txn_read(struct text body, struct arena *arena, bool *out_is_done, uint64_t *out_revision) ATTR_MUST_CHECK;
/* The token of an authenticate answer: printable, without spaces. */
enum err etcd_token_read(struct text body, struct arena *arena, const char **out_token) ATTR_MUST_CHECK;
/* Why a request was refused, from its status and what body there is. */
enum etcd_refusal etcd_refusal_read(unsigned status, struct text body);

#endif
