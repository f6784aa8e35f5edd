/* All that the matcher may look at, each with a "known" bit: unknown never allows. A plain value. */
#ifndef EGRESS_FACTS_FACTS_H
#define EGRESS_FACTS_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/scheme.h"
#include "facts/addr_class.h"
#include "facts/geoip.h"
#include "facts/special_names.h"
#include "facts/target.h"

enum facts_phase {
	PHASE_REQUEST,  /* the target as asked */
	PHASE_ADDRESS,  /* one resolved (or literal) address of it */
	PHASE_STREAM,   /* the first bytes chose a scheme */
	PHASE_REDIRECT, /* a Location seen on the wire */
};

struct facts {
	enum facts_phase phase;
	struct target target;        /* always known: host and port as asked */
	enum name_class name_class;  /* of target.name; ORDINARY for addresses */
	bool ech_public;             /* target.name only ever hides another one: no wildcard allows it */

	bool scheme_known;           /* STREAM, REDIRECT, explain with a scheme */
	enum scheme scheme;

	bool address_known;          /* ADDRESS */
	struct addr address;
	struct addr_finding finding; /* of `address` */
	struct geoip_place place;    /* of `address`, with its own known bits */

	uint32_t slot;               /* of the lease */
	uint32_t generation;
};

#endif
