#include "tests/unit/compiler/texts.h"

#include "compiler/lint.h"
#include "compiler/lint_internal.h"
#include "compiler/pattern.h"

/* Lint a preset (or a ceiling) under a ceiling; codes with the lines they are about, joined by blanks. */
static void lint(const char *text, enum policy_kind kind, const char *ceiling, char out_codes[256])
{
	struct parsed_text t, c;
	struct lint_context context = { .wall_ms = 0 };
	struct fault_list faults;

	text_parse(&t, text, kind, true);
	cr_assert_eq(t.err, ERR_OK, "%s: %s", text, t.faults.first == NULL ? "" : t.faults.first->text);
	text_parse(&c, ceiling, POLICY_CEILING, true);
	cr_assert_eq(c.err, ERR_OK);
	context.policy = t.policy;
	context.ceiling = ceiling[0] == '\0' ? NULL : c.policy;
	fault_list_init(&faults, &t.arena);
	lint_policy(&context, &faults);
	out_codes[0] = '\0';
	for (const struct fault *f = faults.first; f != NULL; f = f->next)
		snprintf(out_codes + strlen(out_codes), 256 - strlen(out_codes), "%s%s:%u", f == faults.first ? "" : " ", f->code,
			 f->place.line);
	text_finish(&c);
	text_finish(&t);
}

Test(lint_rules, rules_are_compared_with_each_other_and_with_the_ceiling)
{
	static const struct {
		const char *text, *ceiling, *codes;
	} rows[] = {
		{ "allow https://a.example\nallow https://b.example\n", "", "" },
		{ "allow https://a.example as x\nallow https://b.example as x\n", "", "duplicate_id:2" },
		{ "allow https://a.example\nallow https://a.example\n", "", "shadowed:2" },
		{ "allow https://a.b.example\nallow https://*.b.example\n", "", "shadowed:1" },
		{ "allow https://b.example\nallow https://*.b.example\n", "", "" },
		{ "allow https://*.a.b.example\nallow https://*.b.example\n", "", "shadowed:1" },
		{ "allow https://a.b.example pin=lease\nallow https://*.b.example\n", "", "" },
		{ "allow https://a.b.example country=DE\nallow https://*.b.example\n", "", "" },
		{ "allow tcp://a.example:1\nallow tcp://a.example:1-9\n", "", "shadowed:1" },
		{ "allow tcp://a.example:1,20\nallow tcp://a.example:1-9\n", "", "" },
		{ "allow tcp://192.0.64.1:1\nallow tcp://192.0.64.0/24:1\n", "", "shadowed:1" },
		{ "deny a.example\ndeny a.example:80\n", "", "shadowed:2" },
		{ "deny a.example\nallow https://a.example\n", "", "unreachable:2" },
		{ "deny *.example.com\nallow https://a.example.com\n", "", "unreachable:2" },
		{ "deny *.example.com:80\nallow https://a.example.com\n", "", "" },
		{ "deny a.example.com\nallow https://*.example.com\n", "", "" },
		{ "deny a.example.com report\nallow https://a.example.com\n", "", "" },
		{ "allow tcp://a.example:443\nallow https://a.example\n", "", "tcp_beside_typed:1" },
		{ "allow tcp://a.example:1-999\nallow https://*.a.example\n", "", "" },
		{ "allow tcp://b.a.example:1-999\nallow https://*.a.example\n", "", "tcp_beside_typed:1" },
		{ "allow tcp://a.example:1-2000\n", "", "too_wide:1" },
		{ "allow tcp://8.0.0.0/9:80\n", "", "too_wide:1" },
		{ "allow tcp://[2a00::/16]:80\n", "", "too_wide:1" },
		{ "deny 8.0.0.0/9\n", "", "" },
		{ "allow https://localhost\n", "allow any\n", "special_name:1" },
		{ "allow https://db.internal\n", "allow any\n", "special_name:1" },
		{ "allow https://db.internal\n", "allow any\nexception db.internal\n", "" },
		{ "allow https://db.internal\n", "allow any\nexception 10.0.0.0/8 for *.internal.example\n", "special_name:1" },
		{ "allow https://db.internal\n", "", "" },
		{ "allow tcp://10.1.0.0/16:80\n", "allow any\n", "special_address:1" },
		{ "allow tcp://10.1.0.0/16:80\n", "allow any\nexception 10.0.0.0/8 for 10.1.0.0/16\n", "" },
		{ "allow tcp://127.0.0.1:80\n", "", "special_address:1" },
		{ "allow tcp://169.254.169.254:80\n", "allow any\n", "special_address:1" },
		{ "allow https://a.example\n", "allow https://b.example\n", "ceiling_refuses:1" },
		{ "allow https://a.example\n", "allow any\ndeny a.example\n", "ceiling_refuses:1" },
		{ "allow https://a.example\n", "allow any\ndeny a.example:80\n", "" },
		{ "allow https://*.a.example\n", "allow https://b.a.example\n", "" },
		{ "allow https://a.example\n", "use p\n", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char codes[256];

		lint(rows[i].text, POLICY_PRESET, rows[i].ceiling, codes);
		cr_assert_str_eq(codes, rows[i].codes, "row %zu: %s", i, codes);
	}
}

Test(lint_rules, a_deny_of_a_preset_hides_an_allow_too)
{
	struct parsed_text t, p;
	struct fault_list faults;
	const struct policy *presets[1];
	struct lint_context context = { .presets = presets, .preset_count = 1 };

	text_parse(&t, "allow https://a.example\n", POLICY_PRESET, false);
	text_parse(&p, "deny a.example\n", POLICY_PRESET, false);
	context.policy = t.policy;
	presets[0] = p.policy;
	fault_list_init(&faults, &t.arena);
	lint_policy(&context, &faults);
	cr_assert_eq(faults.warning_count, 1);
	cr_assert_str_eq(faults.first->code, "unreachable");
	text_finish(&p);
	text_finish(&t);
}

Test(lint_rules, exceptions_that_open_nothing_are_told)
{
	static const struct {
		const char *text, *codes;
	} rows[] = {
		{ "allow any\nexception 10.0.0.0/8 for a.example\n", "" },
		{ "allow any\nexception 8.8.8.8 for a.example\n", "needless_exception:2" },
		{ "allow any\nexception 8.0.0.0/6 for a.example\n", "" },
		{ "allow any\nexception a.example\n", "needless_exception:2" },
		{ "allow any\nexception a.internal\n", "" },
		{ "allow any\nexception 8.8.8.8 for a.internal\n", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char codes[256];

		lint(rows[i].text, POLICY_CEILING, "", codes);
		cr_assert_str_eq(codes, rows[i].codes, "row %zu: %s", i, codes);
	}
}

Test(lint_rules, long_policies_are_read_without_comparing_all_pairs)
{
	static char text[LINT_PAIRS_RULES * 40];
	size_t len = 0;
	char codes[256];

	for (int i = 0; i <= LINT_PAIRS_RULES; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "allow https://a%d.example\n", i / 2);
	lint(text, POLICY_PRESET, "", codes);
	cr_assert_str_eq(codes, "");
}

static void read_rule(const char *text, struct rule *rule)
{
	struct pattern_fault fault;

	cr_assert_eq(pattern_parse(text_of(text), strstr(text, "://") == NULL ? RULE_DENY : RULE_ALLOW, PATTERN_ASCII_ONLY, rule, &fault),
		     ERR_OK, "%s", text);
}

Test(lint_rules, covering_and_overlapping_are_told_apart)
{
	static const struct {
		const char *a, *b;
		bool covers, overlaps;
	} rows[] = {
		{ "a.example", "a.example", true, true },
		{ "a.example", "a.example:80", true, true },
		{ "a.example:80", "a.example", false, true },
		{ "a.example:80", "a.example:81", false, false },
		{ "*.a.example", "a.example", false, false },
		{ "*.a.example", "b.a.example", true, true },
		{ "*.a.example", "*.b.a.example", true, true },
		{ "*.b.a.example", "*.a.example", false, true },
		{ "*.a.example", "xa.example", false, false },
		{ "10.0.0.0/8", "10.1.0.0/16", true, true },
		{ "10.1.0.0/16", "10.0.0.0/8", false, true },
		{ "10.0.0.0/8", "11.0.0.0/8", false, false },
		{ "0.0.0.0/0", "[::/0]", false, false },
		{ "10.0.0.0/8", "a.example", false, false },
		{ "a.example", "10.0.0.0/8", false, false },
		{ "tcp://a.example:1-9", "tcp://a.example:2-3,5", true, true },
		{ "tcp://a.example:1-3,7-9", "tcp://a.example:2-8", false, true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rule a, b, any = { .host = RULE_HOST_ANY };

		read_rule(rows[i].a, &a);
		read_rule(rows[i].b, &b);
		cr_assert_eq(lint_covers(&a, &b), rows[i].covers, "row %zu", i);
		cr_assert_eq(lint_overlaps(&a, &b), rows[i].overlaps, "row %zu", i);
		cr_assert_eq(lint_overlaps(&b, &a), rows[i].overlaps, "row %zu", i);
		cr_assert(lint_covers(&any, &b));
	}
}
