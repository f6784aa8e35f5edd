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

struct pins; /* one per lease, on its home worker */

struct pin {
	struct dname name;
	enum dns_type type;
	bool for_lease;         /* kept until the lease ends (pin=lease) */
	uint64_t expires_ms;    /* loop time; UINT64_MAX when for_lease */
	struct dns_answer answer; /* as answered */
};

struct pins *pins_create(size_t max) ATTR_MUST_CHECK;
void pins_destroy(struct pins *p);
/* The live pin of this name and family, or NULL; borrowed until the next call. */
const struct pin *pins_find(struct pins *p, const struct dname *name, enum dns_type type, uint64_t now_ms);
/* Store an answer under the clamped time of its outcome; replaces an older one; drops the soonest-expiring when full. */
enum err pins_put(struct pins *p, const struct dname *name, enum dns_type type, const struct dns_answer *answer,
		  bool for_lease, uint64_t now_ms) ATTR_MUST_CHECK;
/* Forget one name (both families); true if it was there. */
bool pins_drop(struct pins *p, const struct dname *name);
void pins_flush(struct pins *p);
size_t pins_count(const struct pins *p);
/* Walk by expiry: NULL starts. */
const struct pin *pins_next(const struct pins *p, const struct pin *after);

#endif
