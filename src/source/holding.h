/*
 * What a source of policy holds at one moment, verified and compiled: all of it, or what differs from a holding that was taken before.
 * Handed from a driver to publish; everything is borrowed for the call. Knows no source and no daemon.
 */
#ifndef EGRESS_SOURCE_HOLDING_H
#define EGRESS_SOURCE_HOLDING_H

#include <stddef.h>
#include <stdint.h>

#include "compiler/emit.h"

struct holding_lease {
	const char *id;
	const struct emitted *segment; /* NULL, and only with a base: the lease is gone */
};

/*
 * Whoever takes a holding gives a receipt for it, a number that is never given again. A holding with a base may be offered only to who gave
 * that receipt last: anybody else, and whoever could not take one since, wants the complete one.
 */
struct holding {
	uint64_t base; /* receipt of the holding that this one differs from; 0: it is complete */
	const struct holding_lease *leases; /* all, or those that are new, other or gone; no two with one id */
	size_t lease_count;
	const struct emitted *const *rulesets; /* all that the segments of `leases` name; the same may come again, others are let be */
	size_t ruleset_count;
	const struct emitted *ceiling; /* always */
	uint32_t root_flags;           /* LAYOUT_ROOT_*, always */
};

#endif
