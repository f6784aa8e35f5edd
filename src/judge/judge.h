/*
 * The order of judgement, pure: builds the facts of a phase, asks the matcher (its only caller), applies precedence. The daemon and
 * the tools call the same four questions; there is no second way to decide.
 */
#ifndef EGRESS_JUDGE_JUDGE_H
#define EGRESS_JUDGE_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "decision/permit.h"
#include "decision/verdict.h"
#include "facts/facts.h"
#include "facts/geoip.h"
#include "facts/own_addresses.h"
#include "image/snapshot.h"
#include "lease/lease_table.h"
#include "policy/trace.h"

/* What judgement stands on; all borrowed for the call. */
struct judge {
	const struct snapshot *snapshot;
	const struct lease_table_entry *lease;
	uint32_t generation;          /* of the lease's slot now */
	uint64_t wall_ms;             /* for the lease's own times */
	const struct addr_site *site; /* own addresses and declared NAT64 */
	const struct geoip *geoip;    /* NULL: no database */
	struct trace *trace;          /* NULL: none wanted */
};

/* REQUEST: lease in force → name or literal class → rules. Does not look at the gate (the caller does, first). */
struct verdict judge_request(const struct judge *j, const struct target *target);
/*
 * ADDRESS: one address of an allowed request, resolved or literal: class with exceptions, deny prefixes, ceiling, places. The permit is
 * written only when allowed. `request` is the verdict of REQUEST (its obligations go on). *out_finding is always written.
 */
struct verdict judge_address(const struct judge *j, const struct target *target, const struct verdict *request,
			     const struct addr *address, struct addr_finding *out_finding,
			     struct permit *out_permit);

/* What the first bytes showed. `scheme_known` false: they are none of the typed schemes. */
struct judge_stream {
	bool scheme_known;
	enum scheme scheme;        /* HTTPS, HTTP or SSH; WS is told from HTTP by its upgrade, later */
	bool name_known;           /* server name or Host present and valid; of HTTP not looked at for address targets */
	struct dname name;
	bool name_missing;         /* absent, as opposed to malformed or refused */
	bool has_ech;
	bool tls12_offered;
};
/*
 * STREAM: bytes are what the candidates say, name on the wire equals the name asked for, options hold. The verdict's schemes are what is
 * left of the request's: TCP for opaque bytes; HTTP and WS may stand together.
 */
struct verdict judge_stream(const struct judge *j, const struct target *target, const struct verdict *request,
			    const struct judge_stream *seen);
/* REDIRECT, and explain with a scheme: would a request of this lease to `scheme://target` be allowed, as far as rules and names can tell? */
struct verdict judge_redirect(const struct judge *j, enum scheme scheme, const struct target *target);

#endif
