/*
 * Facts in, verdict out: the only maker of verdicts about targets, and of permits. Lease rules, shared rulesets and ceiling in one pass;
 * deny beats allow; what no rule allows is refused; unknown never allows. Called by judge/judge.c only.
 */
#ifndef EGRESS_POLICY_MATCH_H
#define EGRESS_POLICY_MATCH_H

#include "base/attr.h"
#include "decision/permit.h"
#include "decision/verdict.h"
#include "facts/facts.h"
#include "image/snapshot.h"
#include "policy/trace.h"

/*
 * Match `facts` of one phase: name, then class of the address, then rules, then places, in the order of the reasons. REQUEST: host and
 * port against rules; the verdict carries the candidate schemes and obligations. ADDRESS: also the class of one address of the target,
 * denied prefixes and places. With a known scheme (STREAM, REDIRECT) only candidates of that scheme count.
 * Writes *out_permit only for an allowing ADDRESS verdict; may be NULL for the other phases. `trace` may be NULL.
 */
struct verdict policy_match(const struct snapshot *snapshot, const struct snapshot_lease *lease,
			    const struct facts *facts, struct trace *trace, struct permit *out_permit);

/*
 * Does the ceiling re-open the address of `facts` for its target, or, without an address, its special name? Never a metadata name, nor a
 * class that may not be re-opened, nor an IPv6 form that only wraps an IPv4 address.
 */
bool policy_exception_covers(const struct snapshot *snapshot, const struct facts *facts);

/* Would the ceiling alone let host and port of `facts` through, with its scheme (which must be known)? */
bool policy_ceiling_allows(const struct snapshot *snapshot, const struct facts *facts);

#endif
