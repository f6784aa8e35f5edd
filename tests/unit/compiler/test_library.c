#include "base/crypto.h"
#include "compiler/library.h"
#include "tests/unit/compiler/texts.h"

/* Presets in memory; each read is counted. */
static const struct {
	const char *name, *text;
} shelf[] = {
	{ "a", "allow https://a.example\nuse b c\n" },
	{ "b", "use c\nuse a\n" },
	{ "c", "deny c.example\n" },
	{ "bad", "nonsense\n" },
	{ "needs-bad", "use bad\n" },
	{ "needs-none", "use none\n" },
};
static unsigned reads;

static enum err read_shelf(void *arg, const struct preset *preset, struct arena *arena, struct text *out_text,
			   struct source_stamp *out_stamp, char out_reason[SOURCE_REASON_MAX])
{
	reads++;
	*out_stamp = (struct source_stamp){ 0 };
	if (strcmp(preset->name, "locked") == 0) {
		snprintf(out_reason, SOURCE_REASON_MAX, "it is locked");
		return ERR_DENIED;
	}
	for (size_t i = 0; i < ARRAY_LEN(shelf); i++) {
		if (strcmp(shelf[i].name, preset->name) == 0) {
			*out_text = text_of(shelf[i].text);
			return ERR_OK;
		}
	}
	/* Many presets that use nothing, for limits. */
	if (strncmp(preset->name, "many", 4) == 0) {
		*out_text = text_of("");
		return ERR_OK;
	}
	return ERR_NOT_FOUND;
}

/* Resolve what a text uses; the names come out joined, and the first fault's code. */
static void resolve(const char *text, char out_names[256], const char **out_code, char out_says[FAULT_TEXT_MAX])
{
	struct library_uses uses = { .count = 0 };
	struct fault_list faults;
	struct library library;
	struct parsed_text t;

	cr_assert_eq(crypto_init(), ERR_OK);
	library_init(&library, read_shelf, NULL, false);
	text_parse(&t, text, POLICY_PRESET, false);
	fault_list_init(&faults, &t.arena);
	cr_assert_eq(library_resolve(&library, t.policy->uses, &faults, &uses), ERR_OK);
	out_names[0] = '\0';
	for (size_t i = 0; i < uses.count && i < 8; i++)
		snprintf(out_names + strlen(out_names), 256 - strlen(out_names), "%s%s", i == 0 ? "" : " ", uses.presets[i]->name);
	*out_code = faults.first == NULL ? "" : faults.first->code;
	snprintf(out_says, FAULT_TEXT_MAX, "%s", faults.first == NULL ? "" : faults.first->text);
	cr_assert(faults.first == NULL || faults.first->place.line == 1);
	text_finish(&t);
	library_finish(&library);
}

Test(library, uses_are_followed_once_each_and_loops_end)
{
	static const struct {
		const char *text, *names, *code, *says;
	} rows[] = {
		{ "use a", "a b c", "", "" },
		{ "use c a", "c a b", "", "" },
		{ "use none", "none", "preset_missing", "presets/none.policy" },
		{ "use needs-none", "needs-none none", "preset_missing", "none" },
		{ "use bad", "bad", "preset_faulty", "presets/bad.policy:1:1" },
		{ "use needs-bad", "needs-bad bad", "preset_faulty", "bad" },
		{ "use locked", "locked", "preset_faulty", "it is locked" },
		{ "", "", "", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char names[256], says[FAULT_TEXT_MAX];
		const char *code;

		resolve(rows[i].text, names, &code, says);
		cr_assert_str_eq(names, rows[i].names);
		cr_assert_str_eq(code, rows[i].code);
		cr_assert_not_null(strstr(says, rows[i].says), "%s", says);
	}
}

Test(library, too_many_presets_are_a_fault)
{
	char text[LIBRARY_USES_MAX * 16 + 64] = "use", names[256], says[FAULT_TEXT_MAX];
	const char *code;

	for (int i = 0; i < LIBRARY_USES_MAX; i++)
		sprintf(text + strlen(text), " many%d", i);
	resolve(text, names, &code, says);
	cr_assert_str_eq(code, "");
	strcat(text, " many");
	resolve(text, names, &code, says);
	cr_assert_str_eq(code, "too_many");
}

Test(library, a_preset_is_read_once_until_it_is_forgotten)
{
	struct preset *first, *again;
	struct library library;

	cr_assert_eq(crypto_init(), ERR_OK);
	library_init(&library, read_shelf, NULL, false);
	reads = 0;
	cr_assert_eq(library_get(&library, "c", &first), ERR_OK);
	cr_assert_eq(library_get(&library, "c", &again), ERR_OK);
	cr_assert_eq(first, again);
	cr_assert_eq(library_get(&library, "none", &again), ERR_OK);
	cr_assert(again->is_missing && !again->is_sound);
	cr_assert_eq(reads, 2);
	library_forget(&library, first);
	cr_assert_eq(library_get(&library, "c", &first), ERR_OK);
	cr_assert(first->is_sound);
	cr_assert_eq(reads, 3);
	library_finish(&library);
}
