/* Words and the reading of an outcome that writer and reader of records share. Nobody else needs
 * them. */
#ifndef EGRESS_DECISION_RECORD_INTERNAL_H
#define EGRESS_DECISION_RECORD_INTERNAL_H

#include "base/attr.h"
#include "decision/record.h"

/* OCSF numbers of one kind of event. */
struct record_outcome {
	uint8_t activity;    /* 1 open, 2 close, 3 reset, 4 fail, 5 refuse */
	uint8_t action;	     /* 1 allowed, 2 denied */
	uint8_t disposition; /* 1 allowed, 2 blocked, 24 access revoked, 27 error */
	uint8_t status;	     /* 1 success, 2 failure */
	uint8_t severity;    /* 1 informational, 2 low */
};
struct record_outcome record_outcome_of(const struct record *r);

/* What stands behind the id in metadata.uid, so that two events of one request differ. */
const char *record_uid_suffix(const struct record *r);

const char *record_phase_word(enum facts_phase phase);
bool record_phase_parse(struct text word, enum facts_phase *out_phase) ATTR_MUST_CHECK;
/* Of firewall_rule.type; "" for VERDICT_BY_NOTHING. */
const char *record_source_word(enum verdict_source source);
bool record_source_parse(struct text word, enum verdict_source *out_source) ATTR_MUST_CHECK;

#endif
