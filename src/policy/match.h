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
 * Match `facts` of one phase. REQUEST: host and port against rules; the verdict carries the candidate schemes and obligations.
 * ADDRESS: deny prefixes, ceiling, exceptions, places, for one address of the target. STREAM and REDIRECT: as REQUEST with the scheme.
 * Writes *out_permit only for an allowing ADDRESS verdict; may be NULL for the other phases. `trace` may be NULL.
 */
struct verdict policy_match(const struct snapshot *snapshot, const struct snapshot_lease *lease,
			    const struct facts *facts, struct trace *trace, struct permit *out_permit);

/* Does the ceiling re-open this special address, or this special name, for the target? Never for what may not be re-opened. */
bool policy_exception_covers(const struct snapshot *snapshot, const struct facts *facts);

#endif
