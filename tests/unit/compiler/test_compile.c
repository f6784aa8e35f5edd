#include "compiler/compile.h"
#include "image/segment.h"
#include "tests/unit/compiler/segments.h"

#define GUEST "guest require source\nguest source 10.0.0.1\nmode allowlist\n"
#define DIGEST "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

static enum err find_preset(void *arg, const char *name, struct text *out_text)
{
	if (strcmp(name, "p") != 0)
		return ERR_NOT_FOUND;
	*out_text = text_of("allow https://p.example\n");
	return ERR_OK;
}

static bool find_ruleset(void *arg, const uint8_t payload_sha256[32], struct layout_id *out_segment)
{
	if (payload_sha256[0] != 0x9f)
		return false;
	memset(out_segment->bytes, 7, sizeof(out_segment->bytes));
	return true;
}

struct fixture {
	struct arena arena;
	struct fault_list faults;
	struct compiled compiled;
};

static void compile(struct fixture *f, const char *text, const char *ceiling)
{
	const struct compile_context context = { .preset = find_preset, .ruleset = find_ruleset, .ceiling = text_of(ceiling) };

	cr_assert_eq(crypto_init(), ERR_OK);
	arena_init(&f->arena, 0);
	fault_list_init(&f->faults, &f->arena);
	memset(&f->compiled, 0, sizeof(f->compiled));
	cr_assert_eq(compile_lease_text("a.policy", text_of(text), &context, &f->faults, &f->compiled), ERR_OK);
}

static void finish(struct fixture *f)
{
	compiled_finish(&f->compiled);
	arena_finish(&f->arena);
}

Test(compile, a_lease_and_its_presets_come_out_as_segments)
{
	struct fixture f;
	const struct layout_id *ids;
	struct segment *s;
	uint32_t count;

	compile(&f, "lease a\n" GUEST "use p\n", "allow any\n");
	cr_assert_str_eq(f.compiled.id, "a");
	cr_assert_not(f.compiled.is_quarantined);
	cr_assert_eq(f.compiled.ruleset_count, 1);
	s = segment_verified(&f.compiled.lease);
	ids = segment_table(s, LAYOUT_RULESETS, &count);
	cr_assert_eq(count, 1);
	cr_assert_eq(memcmp(ids[0].bytes, f.compiled.rulesets[0].id, LAYOUT_ID_LEN), 0);
	segment_unref(s);
	segment_unref(segment_verified(&f.compiled.rulesets[0]));
	finish(&f);
}

Test(compile, json_is_told_by_its_brace)
{
	struct fixture f;
	struct segment *s;
	uint32_t count;

	compile(&f, " \n{\"typ\":\"egress.lease/1\",\"lease\":\"j\",\"state\":\"active\",\"guest\":{\"require\":[\"source\"],\"sources\":[\"::1\"]},"
		    "\"network\":{\"mode\":\"allowlist\",\"rulesets\":[\"sha256:" DIGEST "\"],\"rules\":[]}}", "");
	cr_assert_str_eq(f.compiled.id, "j");
	s = segment_verified(&f.compiled.lease);
	cr_assert_eq(segment_lease(s)->state, LAYOUT_LEASE_ACTIVE);
	(void)segment_table(s, LAYOUT_RULESETS, &count);
	cr_assert_eq(count, 1);
	segment_unref(s);
	finish(&f);
	compile(&f, "{\"typ\":\"egress.lease/1\",\"lease\":\"j\",\"state\":\"active\",\"guest\":{\"require\":[\"source\"],\"sources\":[\"::1\"]},"
		    "\"network\":{\"mode\":\"allowlist\",\"rulesets\":[\"sha256:" "00" "86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" "\"],\"rules\":[]}}", "");
	s = segment_verified(&f.compiled.lease);
	cr_assert_eq(segment_lease(s)->state, LAYOUT_LEASE_RULESET_MISSING);
	segment_unref(s);
	finish(&f);
}

Test(compile, a_faulty_lease_is_quarantined_when_its_id_is_known)
{
	static const struct {
		const char *text, *id, *code;
	} rows[] = {
		{ "lease a\n" GUEST "allow https://*\n", "a", "host_star" },
		{ "lease a\n" GUEST "use q\n", "a", "preset_missing" },
		{ "lease a\nallow https://a.example\n", "a", "guest_missing" },
		{ "lease a/b\n" GUEST, "", "bad_word" },
		{ "", "", "lease_missing" },
		{ "{\"lease\":\"j\"}", "j", "missing_key" },
		{ "{\"lease\":7}", "", "missing_key" },
		{ "{", "", "bad_json" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;

		compile(&f, rows[i].text, "");
		cr_assert(f.compiled.is_quarantined, "row %zu", i);
		cr_assert_str_eq(f.compiled.id, rows[i].id);
		cr_assert_str_eq(f.faults.first->code, rows[i].code, "row %zu: %s", i, f.faults.first->code);
		cr_assert_eq(f.compiled.lease.bytes != NULL, rows[i].id[0] != '\0');
		if (f.compiled.lease.bytes != NULL) {
			struct segment *s = segment_verified(&f.compiled.lease);

			cr_assert_eq(segment_lease(s)->state, LAYOUT_LEASE_INVALID);
			segment_unref(s);
		}
		finish(&f);
	}
}

Test(compile, faults_outlive_what_they_are_about)
{
	struct fixture f;
	char text[FAULT_TEXT_MAX];

	compile(&f, "{\"lease\":\"j\",\"x\":1.5}", "");
	cr_assert_gt(f.faults.error_count, 0);
	for (const struct fault *at = f.faults.first; at != NULL; at = at->next)
		cr_assert_gt(fault_print(at, text, sizeof(text)), 10);
	finish(&f);
}

Test(compile, a_faulty_ceiling_is_told_and_left_out)
{
	struct fixture f;

	compile(&f, "lease a\n" GUEST "allow https://a.example\n", "nonsense\n");
	cr_assert_not(f.compiled.is_quarantined);
	cr_assert_eq(f.faults.error_count, 0);
	cr_assert_str_eq(f.faults.first->code, "ceiling_faulty");
	finish(&f);
}

Test(compile, ceilings_and_rulesets_compile_alone)
{
	static const struct {
		const char *text;
		enum err err;
	} rows[] = {
		{ "allow any\n", ERR_OK },
		{ "use p\n", ERR_OK },
		{ "allow any\nprovisioning p\n", ERR_OK },
		{ "", ERR_INVALID },
		{ "# only words\n", ERR_INVALID },
		{ "limit names 5\n", ERR_INVALID },
		{ "use q\n", ERR_INVALID },
		{ "allow any\nprovisioning q\n", ERR_INVALID },
		{ "allow all\n", ERR_INVALID },
	};
	const struct compile_context context = { .preset = find_preset };
	const struct lease_doc_rule rule = { .pattern = "https://a.example", .id = "", .note = "", .pointer = "/rules/0/allow" };
	const struct ruleset_doc doc = { .rules = &rule, .rule_count = 1 };
	struct fixture f;
	struct emitted e;

	cr_assert_eq(crypto_init(), ERR_OK);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		arena_init(&f.arena, 0);
		fault_list_init(&f.faults, &f.arena);
		cr_assert_eq(compile_ceiling_text("c", text_of(rows[i].text), &context, &f.faults, &e), rows[i].err, "row %zu", i);
		cr_assert_eq(f.faults.error_count > 0, rows[i].err != ERR_OK);
		if (rows[i].err == ERR_OK) {
			segment_unref(segment_verified(&e));
			emitted_finish(&e);
		}
		arena_finish(&f.arena);
	}
	arena_init(&f.arena, 0);
	fault_list_init(&f.faults, &f.arena);
	cr_assert_eq(compile_ruleset_doc("r", &doc, &context, &f.faults, &e), ERR_OK);
	segment_unref(segment_verified(&e));
	emitted_finish(&e);
	arena_finish(&f.arena);
}

Test(compile, without_memory_nothing_comes_out_and_nothing_leaks)
{
	const struct compile_context context = { .preset = find_preset, .ceiling = text_of("allow any\n") };
	static const char *const texts[] = { "lease a\n" GUEST "use p\nallow https://a.example\n", "lease a\n" GUEST "bad\n" };

	cr_assert_eq(crypto_init(), ERR_OK);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		bool succeeded = false;

		for (uint64_t nth = 1; !succeeded; nth++) {
			struct fixture f = { .compiled = { .id = "" } };
			enum err err;

			arena_init(&f.arena, 0);
			fault_list_init(&f.faults, &f.arena);
			alloc_fail_at(nth);
			err = compile_lease_text("a", text_of(texts[i]), &context, &f.faults, &f.compiled);
			alloc_fail_at(0);
			succeeded = err == ERR_OK;
			cr_assert(succeeded || err == ERR_NO_MEMORY);
			cr_assert_eq(f.compiled.lease.bytes != NULL, succeeded);
			if (succeeded)
				segment_unref(segment_verified(&f.compiled.lease));
			for (size_t k = 0; succeeded && k < f.compiled.ruleset_count; k++)
				segment_unref(segment_verified(&f.compiled.rulesets[k]));
			finish(&f);
			cr_assert_lt(nth, 1000);
		}
	}
}

/* How often presets were read. */
static enum err count_preset(void *arg, const char *name, struct text *out_text)
{
	(*(unsigned *)arg)++;
	return find_preset(NULL, name, out_text);
}

static void read_doc(struct arena *arena, const char *use_mode, unsigned n, struct lease_doc *out_doc)
{
	struct json_faults faults;
	char *text = arena_take(arena, 512);

	snprintf(text, 512,
		 "{\"typ\":\"egress.lease/1\",\"lease\":\"l%u\",\"state\":\"active\",\"guest\":{\"require\":[\"source\"],"
		 "\"sources\":[\"10.0.0.3\"]},\"network\":{\"mode\":\"%s\",\"rulesets\":[\"sha256:" DIGEST "\"],"
		 "\"rules\":[{\"allow\":\"https://a.example\"}]}}",
		 n, use_mode);
	json_faults_init(&faults, arena);
	cr_assert_eq(lease_doc_read(text_of(text), LEASE_DOC_LOCAL, &faults, out_doc), ERR_OK);
}

Test(compile, on_a_bench_ceiling_and_presets_are_read_once_and_the_same_comes_out)
{
	unsigned reads = 0;
	const struct compile_context context = { .preset = count_preset,
						 .ruleset = find_ruleset,
						 .arg = &reads,
						 .ceiling = text_of("allow any\nprovisioning p\nlimit names 9\n") };
	struct compile_bench *bench;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(compile_bench_create(&context, &bench), ERR_OK);
	for (unsigned n = 0; n < 40; n++) {
		struct fixture f;
		struct compiled alone;
		struct lease_doc doc;
		const struct layout_id *ids;
		struct segment *s;
		uint32_t count;

		arena_init(&f.arena, 0);
		fault_list_init(&f.faults, &f.arena);
		read_doc(&f.arena, "dependency_provisioning", n, &doc);
		reads = 0;
		cr_assert_eq(compile_bench_lease_doc(bench, "l", &doc, find_ruleset, NULL, &f.faults, &f.compiled), ERR_OK);
		cr_assert_eq(reads, n == 0 ? 1 : 0);
		cr_assert_eq(compile_lease_doc("l", &doc, &context, &f.faults, &alone), ERR_OK);
		cr_assert_eq(memcmp(alone.lease.id, f.compiled.lease.id, LAYOUT_ID_LEN), 0);
		cr_assert_eq(f.compiled.ruleset_count, 0);
		s = segment_verified(&f.compiled.lease);
		ids = segment_table(s, LAYOUT_RULESETS, &count);
		cr_assert_eq(count, 2);
		cr_assert_eq(memcmp(compile_bench_preset(bench, ids[1].bytes)->id, alone.rulesets[0].id, LAYOUT_ID_LEN), 0);
		cr_assert_null(compile_bench_preset(bench, ids[0].bytes), "a document is no preset");
		segment_unref(s);
		compiled_finish(&alone);
		finish(&f);
	}
	compile_bench_destroy(bench);
	compile_bench_destroy(NULL);
}
