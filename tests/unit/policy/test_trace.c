/* What a trace tells, and where it ends. */
#include "policy/trace.h"

#include <criterion/criterion.h>

#include "segment_builder.h"

Test(trace, keeps_the_first_steps_and_says_when_it_left_some_out)
{
	static struct trace t;

	trace_init(&t);
	for (uint32_t i = 0; i < TRACE_STEPS_MAX; i++)
		trace_note(&t, VERDICT_BY_LEASE, NULL, i, TRACE_MATCHED);
	cr_expect_eq(t.count, TRACE_STEPS_MAX);
	cr_expect_not(t.truncated);
	trace_note(&t, VERDICT_BY_CEILING, NULL, 999, TRACE_MATCHED);
	cr_expect_eq(t.count, TRACE_STEPS_MAX);
	cr_expect(t.truncated);
	cr_expect_eq(t.steps[TRACE_STEPS_MAX - 1].rule_number, TRACE_STEPS_MAX - 1);
	trace_note(NULL, VERDICT_BY_LEASE, NULL, 0, TRACE_MATCHED);
	trace_init(&t);
	cr_expect(t.count == 0 && !t.truncated);
}

Test(trace, has_a_text_for_every_result)
{
	for (int r = TRACE_MATCHED; r <= TRACE_REPORT_ONLY; r++) {
		for (int other = TRACE_MATCHED; other < r; other++)
			cr_expect_str_neq(trace_result_text((enum trace_result)r),
					  trace_result_text((enum trace_result)other));
		cr_expect_str_neq(trace_result_text((enum trace_result)r), "unknown");
	}
	cr_expect_str_eq(trace_result_text((enum trace_result)99), "unknown");
}

Test(trace, gives_back_every_rule_as_it_was_written)
{
	static struct built_store store;
	static const char *const patterns[] = {
		"https://a.test", "http://*.a.test:8080", "tcp://192.0.2.0/24:1-9,443", "a.test:1-2",
		"*.b.test", "ssh://[2001:db8::1]", "any",
	};
	char text[RULE_TEXT_MAX];
	struct trace_step step;
	struct rule rule;

	built_store_init(&store);
	step.segment = built_segment(&store, LAYOUT_CEILING,
				     "allow https://a.test\nallow http://*.a.test:8080\n"
				     "allow tcp://192.0.2.0/24:1-9,443\ndeny a.test:1-2\n"
				     "deny *.b.test\nallow ssh://[2001:db8::1]\nallow any\n");
	for (uint32_t i = 0; i < ARRAY_LEN(patterns); i++) {
		step.rule_number = i;
		trace_step_rule(&step, &rule);
		cr_expect_str_eq(rule_print(&rule, text), patterns[i]);
		cr_expect_eq(rule.action, i == 3 || i == 4 ? RULE_DENY : RULE_ALLOW);
	}
	built_store_finish(&store);
}
