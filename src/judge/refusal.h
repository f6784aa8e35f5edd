/* The typed refusal object of the contract (section 5), and the narrowest rule that would have let the request through. Pure. */
#ifndef EGRESS_JUDGE_REFUSAL_H
#define EGRESS_JUDGE_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "decision/record.h"
#include "image/snapshot.h"

#define REFUSAL_JSON_MAX 4096

struct refusal {
	enum reason reason;
	char what[RULE_TEXT_MAX + 160];  /* sentences for people, escaped */
	char why[RULE_TEXT_MAX + 160];
	char suggested_fix[RULE_TEXT_MAX + 160];
	bool has_fix;                    /* widening would help and the ceiling allows it */
	char fix_rule[RULE_TEXT_MAX];    /* the narrowest rule, in the grammar */
	const char *rule_kind; /* static: lease, ruleset, ceiling, address, control, identity, limits, protocol, network or proxy */
	char rule_id[RULE_ID_MAX + 1];
	char environment_class[RECORD_WORD_MAX + 1];
	char lease[RECORD_LEASE_MAX + 1];
	uint64_t rev;
	char decision[RECORD_ID_LEN + 1];
};

/* Explain a refusing record. `snapshot` (NULL: none) is asked whether the ceiling would allow the fix. */
void refusal_from_record(const struct record *record, const struct snapshot *snapshot, struct refusal *out_refusal);
/*
 * Write the JSON object in the contract's key order, no newline, zero-terminated; returns its length, 0 if it does not fit. `with_fix` false
 * for in-band bodies: only decision, code, reason and sentences, since any clear-HTTP origin could forge the rest.
 */
size_t refusal_json(const struct refusal *r, bool with_fix, char *out_json, size_t cap);

#endif
