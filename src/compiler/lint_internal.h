/* How a check of lint.def tells what it found. */
#ifndef EGRESS_COMPILER_LINT_INTERNAL_H
#define EGRESS_COMPILER_LINT_INTERNAL_H

#include "base/attr.h"
#include "compiler/lint.h"

#define LINT_PAIRS_RULES 2048 /* most rules of a policy whose pairs are compared */

struct lint_report {
	struct fault_list *faults; /* borrowed */
	const struct lint_row *row; /* of the check that runs */
};

void lint_tell(struct lint_report *report, struct fault_place place, const char *format, ...) ATTR_PRINTF(3, 4);

/* Does every host and port of `b` belong to `a` too? */
bool lint_covers(const struct rule *a, const struct rule *b);
/* Is there a host and port that belongs to both? */
bool lint_overlaps(const struct rule *a, const struct rule *b);

#endif
