/*
 * Name-to-address bindings of one lease, positive and negative, found by name and dropped by expiry, bounded in number. A later
 * answer cannot move a judged target; no other lease sees them. Stores addresses, never verdicts.
 */
#ifndef EGRESS_NET_PINS_H
#define EGRESS_NET_PINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/dname.h"
#include "base/err.h"
#include "wire/dns_answer.h"

#define PINS_TTL_MIN_S 30
#define PINS_TTL_MAX_S 3600
#define PINS_NEGATIVE_MAX_S 60
#define PINS_FAILURE_MAX_S 5
#define PINS_SILENCE_S 1 /* of servers: it says nothing about the name, so it is not kept for longer than a burst */

struct pins; /* one per lease, on its home worker */

/* What is kept of an answer: a few dozen bytes and its own addresses. Everything here lives as long as the pin. */
struct pin {
	const char *name;         /* canonical text */
	const char *canonical;    /* the end of the alias chain; `name` itself without one */
	const struct addr *addrs; /* addr_count of them, in the order of the answer */
	uint64_t expires_ms;      /* loop time; UINT64_MAX when for_lease */
	uint32_t ttl_s;           /* as answered, before clamping */
	uint16_t type;            /* enum dns_type */
	uint8_t outcome;          /* enum dns_outcome */
	uint8_t rcode;
	uint8_t chain_count;
	uint8_t addr_count;
	bool for_lease; /* kept until the lease ends (pin=lease); only answers with addresses are */
};

/* At most `max` pins, of all kinds together. NULL without memory or randomness. */
struct pins *pins_create(size_t max) ATTR_MUST_CHECK;
void pins_destroy(struct pins *p);
/* From now on at most `max`; what is there already stays until its time. */
void pins_set_max(struct pins *p, size_t max);
/* The live pin of this name and family, or NULL; borrowed until the next call of pins_put, _find, _drop or _flush. */
const struct pin *pins_find(struct pins *p, const struct dname *name, enum dns_type type, uint64_t now_ms);
/* Write the pin out as the answer that it was made of. */
void pin_answer(const struct pin *pin, struct dns_answer *out_answer);
/*
 * Store an answer under the clamped time of its outcome: addresses 30 s to 1 h; no such name and no address 1 s to 60 s (the zone's
 * own bound when lower); a failure 5 s; silence of all servers 1 s. Replaces an older one, except that a pin for the lease stands until it is dropped. When
 * full the soonest to expire makes room; pins for the lease never do (LIMIT when there are no others).
 */
enum err pins_put(struct pins *p, const struct dname *name, enum dns_type type, const struct dns_answer *answer,
		  bool for_lease, uint64_t now_ms) ATTR_MUST_CHECK;
/* Forget one name (both families); true if it was there. */
bool pins_drop(struct pins *p, const struct dname *name);
void pins_flush(struct pins *p);
size_t pins_count(const struct pins *p);
/* Walk all, expired ones too, in no order: NULL starts; `after` must still be there. */
const struct pin *pins_next(const struct pins *p, const struct pin *after);

#endif
