/*
 * What one lease may tell the world by asking for names: lookups and failing lookups a second, different names an hour, the information in what
 * a wildcard leaves free, and that in the choice among names it has. A name below a wildcard is a message to the owner of its zone; number,
 * length, disorder and repetition are the only handles. Plain state of the lease's home; time is the caller's.
 */
#ifndef EGRESS_PROXY_DNS_BUDGET_H
#define EGRESS_PROXY_DNS_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/hash.h"
#include "base/text.h"
#include "decision/reason.h"
#include "proxy/bucket.h"

#define DNS_BUDGET_WINDOW_MS 3600000 /* a name counts for so long after it was last asked for */
#define DNS_BUDGET_BITS_PER_NAME 64  /* `names` times this: bits of free labels that new names may carry within a window */
#define DNS_BUDGET_BITS_AGAIN 128    /* `names` times this: bits that asking again for names below wildcards may carry within a window */
#define DNS_BUDGET_NAMES_MAX 65536   /* names remembered, whatever the limit says */

/* Limits in force; 0: none. */
struct dns_budget_limits {
	uint64_t lookups_per_s, failures_per_s;
	uint64_t names; /* different ones within the window */
};

struct dns_budget_name {
	uint64_t hash; /* 0: free cell */
	uint64_t asked_ms;
	uint32_t bits;
};

struct dns_budget {
	struct bucket lookups, failures;
	struct hash_key key;             /* made with the first name */
	struct dns_budget_name *names;   /* owned table of `room` cells, a power of two; NULL before the first name */
	size_t room, name_count;
	uint64_t bits;                   /* in all remembered names */
	uint64_t again_milli, again_at_ms; /* thousandths of bits told by asking again; they fade evenly, a whole allowance within a window */
	uint64_t oldest_ms;              /* no remembered name was asked for last before this */
	uint64_t refused;                /* lookups, since the lease's home was made */
};

/* A zeroed budget is full. */
void dns_budget_finish(struct dns_budget *b);
/*
 * May `name` be looked up now, of which a wildcard leaves the first `free_len` bytes open (0: the rule names it)? ALLOWED, which counts it,
 * or dns_budget, or resource.
 */
enum reason dns_budget_admit(struct dns_budget *b, const struct dns_budget_limits *limits, struct text name, size_t free_len,
			     uint64_t now_ms) ATTR_MUST_CHECK;
/* A lookup came to nothing: no such name, or no answer at all. */
void dns_budget_failed(struct dns_budget *b, const struct dns_budget_limits *limits, uint64_t now_ms);
/* Bits that `labels` may carry: their length times the logarithm of the number of different characters, rounded up. Dots count for nothing. */
uint32_t dns_budget_bits(struct text labels);

#endif
