/*
 * What a source of policy holds at one moment, verified and compiled: the complete set of leases, what they share, and the ceiling. Handed
 * from a driver to publish; everything is borrowed for the call. Knows no source and no daemon.
 */
#ifndef EGRESS_SIDECAR_HOLDING_H
#define EGRESS_SIDECAR_HOLDING_H

#include <stddef.h>
#include <stdint.h>

#include "compiler/emit.h"

struct holding_lease {
	const char *id;
	const struct emitted *segment;
};

struct holding {
	const struct holding_lease *leases; /* no two with one id */
	size_t lease_count;
	const struct emitted *const *rulesets;
	size_t ruleset_count;
	const struct emitted *ceiling;
	uint32_t root_flags; /* LAYOUT_ROOT_* */
};

#endif
