/* For tests: a verdict as one line, so that tables of decisions can be read. */
#ifndef EGRESS_TESTS_VERDICT_TEXT_H
#define EGRESS_TESTS_VERDICT_TEXT_H

#include "decision/verdict.h"

#define VERDICT_TEXT_MAX 256

/*
 * "allowed https,http pin=lease ech place by r1", "would_deny no_rule tcp by r2", or for a refusal "rule_deny by r3". Pins other than ttl
 * are named; "by" stands only before a rule with an id. Returns out_text.
 */
const char *verdict_text(const struct verdict *v, char out_text[VERDICT_TEXT_MAX]);

#endif
