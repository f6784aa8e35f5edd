/* Parse a text and look at what came out, for tests of the parser. */
#ifndef EGRESS_TESTS_COMPILER_TEXTS_H
#define EGRESS_TESTS_COMPILER_TEXTS_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "compiler/parse.h"

struct parsed_text {
	struct arena arena;
	struct fault_list faults;
	struct policy *policy;
	enum err err;
};

static inline void text_parse(struct parsed_text *t, const char *text, enum policy_kind kind, bool report_allowed)
{
	const struct parse_as as = { .kind = kind, .name = kind == POLICY_PRESET ? "preset" : "", .report_allowed = report_allowed };

	arena_init(&t->arena, 0);
	fault_list_init(&t->faults, &t->arena);
	t->policy = NULL;
	t->err = parse_policy(&t->arena, "t.policy", text_of(text), &as, &t->faults, &t->policy);
}

static inline void text_finish(struct parsed_text *t)
{
	arena_finish(&t->arena);
}

/* One text and the one fault that it must give. */
struct bad_text {
	enum policy_kind kind;
	const char *text;
	uint32_t line, column;
	const char *code, *says;
};

static inline void text_expect_fault(const struct bad_text *row)
{
	struct parsed_text t;

	text_parse(&t, row->text, row->kind, false);
	cr_assert_eq(t.err, ERR_INVALID, "%s", row->text);
	cr_assert_eq(t.faults.error_count, 1, "%s: %zu faults, the last: %s", row->text, t.faults.error_count, t.faults.last->text);
	cr_assert_str_eq(t.faults.first->code, row->code, "%s: %s: %s", row->text, t.faults.first->code, t.faults.first->text);
	cr_assert_eq(t.faults.first->place.line, row->line, "%s: line %u", row->text, t.faults.first->place.line);
	cr_assert_eq(t.faults.first->place.column, row->column, "%s: column %u", row->text, t.faults.first->place.column);
	cr_assert_not_null(strstr(t.faults.first->text, row->says), "%s: %s", row->text, t.faults.first->text);
	text_finish(&t);
}

#endif
