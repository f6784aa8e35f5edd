/* Collects which rules were tried and why they failed. `explain` is a match with a trace, never a second walk. */
#ifndef EGRESS_POLICY_TRACE_H
#define EGRESS_POLICY_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "decision/reason.h"
#include "decision/verdict.h"
#include "facts/rule.h"
#include "image/segment.h"

#define TRACE_STEPS_MAX 128

enum trace_result {
	TRACE_MATCHED,
	TRACE_PORT_DIFFERS,
	TRACE_SCHEME_DIFFERS,
	TRACE_HIDDEN_BY_TYPED,
	TRACE_PLACE_DIFFERS,
	TRACE_PLACE_UNKNOWN,
	TRACE_REPORT_ONLY,
	TRACE_HIDES_A_NAME,
};

struct trace_step {
	enum verdict_source source;
	const struct segment *segment; /* borrowed from the snapshot */
	uint32_t rule_number;
	enum trace_result result;
};

struct trace {
	size_t count;
	bool truncated;
	struct trace_step steps[TRACE_STEPS_MAX];
};

void trace_init(struct trace *t);
/* Note one rule; NULL trace: nothing happens. */
void trace_note(struct trace *t, enum verdict_source source, const struct segment *segment, uint32_t rule_number,
		enum trace_result result);
/* Say what a result means, for people. Never NULL. */
const char *trace_result_text(enum trace_result r);
/* The rule of a step as a value, for printing. */
void trace_step_rule(const struct trace_step *step, struct rule *out_rule);

#endif
