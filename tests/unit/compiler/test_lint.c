#include "tests/unit/compiler/texts.h"

#include "compiler/lint.h"
#include "compiler/lint_internal.h"

#define BASE "lease a\nguest require source\nguest source 10.0.0.1\n"

/* Lint a lease under a ceiling; the codes found are joined by blanks. */
static void lint(const char *lease, const char *ceiling, uint64_t wall_ms, char out_codes[256])
{
	struct parsed_text t, c;
	struct lint_context context = { .wall_ms = wall_ms };
	struct fault_list faults;

	text_parse(&t, lease, POLICY_LEASE, true);
	cr_assert_eq(t.err, ERR_OK, "%s: %s", lease, t.faults.first == NULL ? "" : t.faults.first->text);
	text_parse(&c, ceiling, POLICY_CEILING, true);
	cr_assert_eq(c.err, ERR_OK);
	context.policy = t.policy;
	context.ceiling = ceiling[0] == '\0' ? NULL : c.policy;
	fault_list_init(&faults, &t.arena);
	lint_policy(&context, &faults);
	cr_assert_eq(faults.error_count, 0);
	out_codes[0] = '\0';
	for (const struct fault *f = faults.first; f != NULL; f = f->next) {
		strcat(out_codes, f->code);
		strcat(out_codes, f->next == NULL ? "" : " ");
		cr_assert(f->place.line > 0, "%s", f->code);
	}
	text_finish(&c);
	text_finish(&t);
}

Test(lint, each_row_is_documented_once)
{
	for (size_t i = 0; lint_row_at(i) != NULL; i++) {
		cr_assert_gt(strlen(lint_row_at(i)->text), 20);
		for (size_t j = 0; j < i; j++)
			cr_assert_str_neq(lint_row_at(i)->code, lint_row_at(j)->code);
	}
	cr_assert_not_null(lint_row_at(10));
	cr_assert_null(lint_row_at(1000));
}

Test(lint, what_a_lease_says_about_itself_is_looked_at)
{
	static const struct {
		const char *lease, *ceiling, *codes;
	} rows[] = {
		{ BASE "mode allowlist\nallow https://a.example\n", "allow any", "" },
		{ BASE "mode allow_list\nallow https://a.example\n", "", "scope_undeclared" },
		{ BASE "mode deny_all\n", "", "" },
		{ BASE "mode deny_all\nallow https://a.example\n", "", "mode_needs_no_rules" },
		{ BASE "mode deny_all\nuse p\n", "", "mode_needs_no_rules" },
		{ BASE "mode allowlist\n", "", "allows_nothing" },
		{ BASE "mode allowlist\ndeny a.example\n", "", "allows_nothing" },
		{ BASE "mode dependency_provisioning\n", "", "allows_nothing" },
		{ BASE "mode allowlist\nallow https://a.example\nenforcement report\n", "", "report_only" },
		{ BASE "mode allowlist\nallow https://a.example\nguest listener l\n", "", "guest_unused" },
		{ "lease a\nguest require listener\nguest listener l\nguest source ::1\nmode deny_all\n", "", "guest_unused" },
		{ BASE "mode deny_all\nlimit names 5\n", "allow any\nlimit names 4\n", "limit_lowered" },
		{ BASE "mode deny_all\nlimit names 5\n", "allow any\nlimit names 5 connections 1\n", "" },
		{ BASE "mode deny_all\nexpires 2000-01-01T00:00:00Z\n", "", "expired" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char codes[256];

		lint(rows[i].lease, rows[i].ceiling, 1700000000000u, codes);
		cr_assert_str_eq(codes, rows[i].codes, "row %zu: %s", i, codes);
	}
}

Test(lint, without_a_clock_nothing_has_ended)
{
	char codes[256];

	lint(BASE "mode deny_all\nexpires 2000-01-01T00:00:00Z\n", "", 0, codes);
	cr_assert_str_eq(codes, "");
}
