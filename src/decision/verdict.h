/* The answer to one question of judgement: a plain value that copies ids and points nowhere. Starts as a refusal. */
#ifndef EGRESS_DECISION_VERDICT_H
#define EGRESS_DECISION_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/scheme.h"
#include "decision/reason.h"
#include "facts/rule.h"

enum verdict_source { VERDICT_BY_NOTHING, VERDICT_BY_LEASE, VERDICT_BY_RULESET, VERDICT_BY_CEILING };

struct verdict {
	bool allow;               /* false until a rule said otherwise */
	enum reason reason;       /* ALLOWED exactly when `allow` and nothing was only reported */
	bool would_deny;          /* report-only: let through, `reason` says what enforcement would have said */
	enum verdict_source source;
	char rule_id[RULE_ID_MAX + 1]; /* of the deciding rule; "" if none */
	uint64_t snapshot;        /* version it was judged under */

	/* Obligations: the strictest of the candidates. */
	unsigned schemes;         /* BIT(enum scheme) of the candidate rules; typed ones hide tcp */
	enum rule_pin pin;        /* never DEFAULT when allow */
	bool ech_refuse;
	uint16_t free_len;        /* bytes of the name that a wildcard leaves open, by the narrowest candidate; 0: a rule names it whole */
	bool place_required;      /* some candidate limits country or AS: ADDRESS must know the place */
};

/* A verdict that refuses with `why`. */
static inline struct verdict verdict_refuse(enum reason why)
{
	return (struct verdict){ .allow = false, .reason = why };
}

#endif
