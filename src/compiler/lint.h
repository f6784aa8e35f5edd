/* Checks of a whole policy by table (lint.def): each has a code, a severity and a function; errors quarantine, warnings are for people. */
#ifndef EGRESS_COMPILER_LINT_H
#define EGRESS_COMPILER_LINT_H

#include <stddef.h>
#include <stdint.h>

#include "compiler/ast.h"
#include "config/fault.h"

/* What a check may look at. Everything is borrowed. */
struct lint_context {
	const struct policy *policy;         /* being checked */
	const struct policy *const *presets; /* that it uses, resolved */
	size_t preset_count;
	const struct policy *ceiling;        /* NULL: none at hand */
	uint64_t wall_ms;                    /* now; 0: do not look at times */
};

/* Run every check. */
void lint_policy(const struct lint_context *context, struct fault_list *faults);

struct lint_row {
	const char *code;
	enum fault_severity severity;
	const char *text; /* what it finds and why it matters */
};
/* A row of the table, for help and documentation; NULL behind the last. */
const struct lint_row *lint_row_at(size_t index);

#endif
