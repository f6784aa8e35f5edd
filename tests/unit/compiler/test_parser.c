#include "tests/unit/compiler/texts.h"

#include "compiler/enforced.h"

Test(parser, a_lease_must_say_who_how_and_what)
{
	static const struct {
		const char *text;
		const char *codes[4];
	} rows[] = {
		{ "", { "lease_missing", "guest_missing", "mode_missing" } },
		{ "lease a\n", { "guest_missing", "mode_missing" } },
		{ "lease a\nguest require source\nmode allowlist\n", { "guest_incomplete" } },
		{ "lease a\nguest require token\nmode allowlist\n", { "guest_incomplete" } },
		{ "lease a\nguest require listener\nmode allowlist\n", { "guest_incomplete" } },
		{ "lease a\nguest require source token listener\n",
		  { "guest_incomplete", "guest_incomplete", "guest_incomplete", "mode_missing" } },
		{ "lease a\nguest source ::1\nmode allowlist\n", { "guest_missing" } },
		{ "lease a\nguest require listener\nguest listener l\nmode a b\n", { "bad_statement", "mode_missing" } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct fault *f;
		struct parsed_text t;
		size_t count = 0;

		text_parse(&t, rows[i].text, POLICY_LEASE, false);
		cr_assert_eq(t.err, ERR_INVALID);
		for (f = t.faults.first; f != NULL; f = f->next, count++)
			cr_assert_str_eq(f->code, rows[i].codes[count], "row %zu", i);
		cr_assert(count == 4 || rows[i].codes[count] == NULL, "row %zu", i);
		text_finish(&t);
	}
}

Test(parser, what_cannot_be_enforced_is_not_promised_but_may_bound)
{
	for (unsigned s = 0; s < SCHEME_COUNT; s++) {
		char text[64];
		struct parsed_text t;

		snprintf(text, sizeof(text), "allow %s://a.example:9\n", scheme_row((enum scheme)s)->word);
		text_parse(&t, text, POLICY_PRESET, false);
		cr_assert_eq(t.err == ERR_OK, enforced_scheme((enum scheme)s), "%s", text);
		text_finish(&t);
		text_parse(&t, text, POLICY_CEILING, false);
		cr_assert_eq(t.err, ERR_OK, "%s", text);
		text_finish(&t);
	}
	cr_assert(enforced_scheme(SCHEME_HTTPS) && enforced_scheme(SCHEME_TCP));
	cr_assert_not(enforced_scheme(SCHEME_COUNT));
}

Test(parser, all_faults_of_one_rule_come_at_once)
{
	struct parsed_text t;

	text_parse(&t, "allow https://metadata.google.internal report\n", POLICY_PRESET, false);
	cr_assert_eq(t.faults.error_count, 2);
	cr_assert_eq(t.policy->rule_count, 0);
	text_finish(&t);
}
