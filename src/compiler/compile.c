/* One policy in memory to its segments: parse, resolve, lint, emit; see compile.h. Opens nothing. */
#include "compiler/compile.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/compile_internal.h"
#include "compiler/lint.h"
#include "compiler/parse.h"

#define RULESETS_MAX (LEASE_DOC_RULESETS_MAX + LIBRARY_USES_MAX)

void compiled_finish(struct compiled *c)
{
	emitted_finish(&c->lease);
	for (size_t i = 0; i < c->ruleset_count; i++)
		emitted_finish(&c->rulesets[i]);
	alloc_free(c->rulesets);
	*c = (struct compiled){ 0 };
}

/* Presets that the ceiling adds to a lease of this mode. */
static enum err resolve(const struct policy *policy, const struct compile_around *around, struct fault_list *faults,
			struct library_uses *uses)
{
	enum err err;

	uses->count = 0;
	err = library_resolve(around->library, policy->uses, faults, uses);
	if (err == ERR_OK && policy->mode == POLICY_MODE_PROVISIONING && around->ceiling != NULL)
		err = library_resolve(around->library, around->ceiling->provisioning, faults, uses);
	return err;
}

static void lint(const struct policy *policy, const struct compile_around *around, const struct library_uses *uses,
		 struct fault_list *faults)
{
	const struct policy *presets[LIBRARY_USES_MAX];
	struct lint_context context = {
		.policy = policy,
		.presets = presets,
		.preset_count = uses->count,
		.ceiling = around->ceiling,
		.wall_ms = around->wall_ms,
	};

	for (size_t i = 0; i < uses->count; i++)
		presets[i] = uses->presets[i]->policy;
	lint_policy(&context, faults);
}

enum err compile_tree(const struct policy *policy, const struct compile_around *around, struct fault_list *faults,
		      struct library_uses *out_uses, struct emitted *out_segment)
{
	struct layout_id ids[RULESETS_MAX];
	size_t errors_before = faults->error_count, count = 0;
	bool is_missing = false;
	enum err err = resolve(policy, around, faults, out_uses);

	if (err != ERR_OK || faults->error_count > errors_before)
		return err != ERR_OK ? err : ERR_INVALID;
	lint(policy, around, out_uses, faults);
	if (faults->out_of_memory)
		return ERR_NO_MEMORY;
	if (faults->error_count > errors_before)
		return ERR_INVALID;
	for (const struct policy_use *u = policy->uses; u != NULL; u = u->next) {
		if (u->name[0] != '\0')
			continue;
		if (around->ruleset == NULL || count == LEASE_DOC_RULESETS_MAX ||
		    !around->ruleset(around->ruleset_arg, u->payload_sha256, &ids[count]))
			is_missing = true;
		else
			count++;
	}
	for (size_t i = 0; i < out_uses->count; i++)
		memcpy(ids[count++].bytes, out_uses->presets[i]->segment.id, LAYOUT_ID_LEN);
	err = emit_lease(policy, around->ceiling, ids, count, is_missing, out_segment);
	if (err == ERR_LIMIT) {
		fault_add(faults, policy->name_place, FAULT_ERROR, "too_long", "the lease has more rules than a segment can hold");
		return ERR_INVALID;
	}
	return err;
}

static enum err parse_json(struct arena *arena, const char *file, struct text text, bool report_allowed, struct fault_list *faults,
			   struct policy **out_policy, char out_id[LEASE_DOC_ID_MAX + 1])
{
	struct json_faults json_faults;
	struct lease_doc *doc = arena_take(arena, sizeof(*doc));
	enum err err;

	if (doc == NULL)
		return ERR_NO_MEMORY;
	json_faults_init(&json_faults, arena);
	err = lease_doc_read(text, LEASE_DOC_LOCAL, &json_faults, doc);
	if (err == ERR_OK) {
		snprintf(out_id, LEASE_DOC_ID_MAX + 1, "%s", doc->lease);
		return parse_lease_doc(arena, file, doc, report_allowed, faults, out_policy);
	}
	parse_take_json_faults(file, &json_faults, faults);
	if (!lease_doc_id(text, out_id))
		out_id[0] = '\0';
	return err;
}

/* Does it look like JSON? Nothing of a `.policy` file begins with a brace. */
static bool is_json(struct text text)
{
	size_t at = 0;

	while (at < text.len && (text.at[at] == ' ' || text.at[at] == '\t' || text.at[at] == '\r' || text.at[at] == '\n'))
		at++;
	return at < text.len && text.at[at] == '{';
}

enum err compile_parse_lease(struct arena *arena, const char *file, struct text text, bool report_allowed, struct fault_list *faults,
			     struct policy **out_policy, char out_id[LEASE_DOC_ID_MAX + 1])
{
	const struct parse_as as = { .kind = POLICY_LEASE, .name = "", .report_allowed = report_allowed };
	enum err err;

	*out_policy = NULL;
	out_id[0] = '\0';
	if (is_json(text))
		return parse_json(arena, file, text, report_allowed, faults, out_policy, out_id);
	err = parse_policy(arena, file, text, &as, faults, out_policy);
	if (*out_policy != NULL)
		snprintf(out_id, LEASE_DOC_ID_MAX + 1, "%s", (*out_policy)->name);
	return err;
}

static enum err read_preset(void *arg, const struct preset *preset, struct arena *arena, struct text *out_text,
			    struct source_stamp *out_stamp, char out_reason[SOURCE_REASON_MAX])
{
	const struct compile_context *context = arg;

	if (context->preset == NULL)
		return ERR_NOT_FOUND;
	snprintf(out_reason, SOURCE_REASON_MAX, "the preset cannot be read");
	*out_stamp = (struct source_stamp){ 0 };
	return context->preset(context->arg, preset->name, out_text);
}

/* What compile calls stand on while they run. */
struct compile_bench {
	struct compile_context context;
	struct arena arena; /* owns the ceiling's tree */
	struct library library;
	struct policy *ceiling; /* NULL: none at hand */
	bool is_ceiling_faulty;
	struct compile_around around;
};

/* Parse the ceiling of the context. */
static enum err bench_init(struct compile_bench *b, const struct compile_context *context)
{
	const struct parse_as as = { .kind = POLICY_CEILING, .name = "", .report_allowed = context->report_allowed };
	struct fault_list unused;
	enum err err = ERR_OK;

	*b = (struct compile_bench){ .context = *context };
	arena_init(&b->arena, 0);
	library_init(&b->library, read_preset, &b->context, context->report_allowed);
	fault_list_init(&unused, &b->arena);
	if (context->ceiling.len > 0)
		err = parse_policy(&b->arena, "ceiling.policy", context->ceiling, &as, &unused, &b->ceiling);
	if (err == ERR_INVALID) {
		b->ceiling = NULL;
		b->is_ceiling_faulty = true;
		err = ERR_OK;
	}
	b->around = (struct compile_around){
		.library = &b->library,
		.ceiling = b->ceiling,
		.ruleset = context->ruleset,
		.ruleset_arg = context->arg,
		.wall_ms = context->wall_ms,
	};
	return err;
}

static void bench_finish(struct compile_bench *b)
{
	library_finish(&b->library);
	arena_finish(&b->arena);
}

/* Faults of the ceiling are told for each lease too, but quarantine nothing here. */
static void tell_ceiling(const struct compile_bench *b, struct fault_list *faults)
{
	if (b->is_ceiling_faulty)
		fault_add(faults, (struct fault_place){ .file = "ceiling.policy" }, FAULT_WARNING, "ceiling_faulty",
			  "the ceiling has faults and was left out here");
}

/* Move the segments of the presets over to the caller. */
static enum err take_rulesets(struct library_uses *uses, struct compiled *out)
{
	if (uses->count == 0)
		return ERR_OK;
	out->rulesets = alloc_array(uses->count, sizeof(*out->rulesets));
	if (out->rulesets == NULL)
		return ERR_NO_MEMORY;
	for (size_t i = 0; i < uses->count; i++) {
		out->rulesets[i] = uses->presets[i]->segment;
		uses->presets[i]->segment = (struct emitted){ 0 };
	}
	out->ruleset_count = uses->count;
	return ERR_OK;
}

/* From a parse that went well or not to what the caller gets. */
static enum err finish_lease(const struct compile_around *around, enum err parsed, const struct policy *policy, struct fault_list *faults,
			     struct library_uses *uses, struct compiled *compiled)
{
	enum err err = parsed;

	uses->count = 0;
	if (err == ERR_OK)
		err = compile_tree(policy, around, faults, uses, &compiled->lease);
	if (err != ERR_INVALID)
		return err;
	uses->count = 0;
	compiled->is_quarantined = true;
	return compiled->id[0] == '\0' ? ERR_OK : emit_quarantined(compiled->id, policy, &compiled->lease);
}

static enum err give(enum err err, struct compiled *compiled, struct compiled *out_compiled)
{
	if (err != ERR_OK)
		compiled_finish(compiled);
	else
		*out_compiled = *compiled;
	return err;
}

enum err compile_lease_text(const char *file, struct text text, const struct compile_context *context, struct fault_list *faults,
			    struct compiled *out_compiled)
{
	struct compiled compiled = { .id = "" };
	struct policy *policy = NULL;
	struct library_uses uses;
	struct compile_bench b;
	enum err err = bench_init(&b, context);

	if (err == ERR_OK) {
		tell_ceiling(&b, faults);
		err = compile_parse_lease(&b.arena, file, text, context->report_allowed, faults, &policy, compiled.id);
		err = finish_lease(&b.around, err, policy, faults, &uses, &compiled);
	}
	if (err == ERR_OK)
		err = take_rulesets(&uses, &compiled);
	bench_finish(&b);
	return give(err, &compiled, out_compiled);
}

/* The document on a bench, to be finished as its caller likes. */
static enum err bench_lease_doc(const struct compile_bench *b, struct arena *arena, const struct compile_around *around, const char *file,
				const struct lease_doc *doc, struct fault_list *faults, struct library_uses *uses, struct compiled *compiled)
{
	struct policy *policy = NULL;
	enum err err;

	tell_ceiling(b, faults);
	snprintf(compiled->id, sizeof(compiled->id), "%s", doc->lease);
	err = parse_lease_doc(arena, file, doc, b->context.report_allowed, faults, &policy);
	return finish_lease(around, err, policy, faults, uses, compiled);
}

enum err compile_lease_doc(const char *file, const struct lease_doc *doc, const struct compile_context *context,
			   struct fault_list *faults, struct compiled *out_compiled)
{
	struct compiled compiled = { .id = "" };
	struct library_uses uses;
	struct compile_bench b;
	enum err err = bench_init(&b, context);

	if (err == ERR_OK)
		err = bench_lease_doc(&b, &b.arena, &b.around, file, doc, faults, &uses, &compiled);
	if (err == ERR_OK)
		err = take_rulesets(&uses, &compiled);
	bench_finish(&b);
	return give(err, &compiled, out_compiled);
}

enum err compile_bench_create(const struct compile_context *context, struct compile_bench **out_bench)
{
	struct compile_bench *b = alloc_zeroed(sizeof(*b));
	enum err err;

	if (b == NULL)
		return ERR_NO_MEMORY;
	err = bench_init(b, context);
	if (err != ERR_OK) {
		compile_bench_destroy(b);
		return err;
	}
	*out_bench = b;
	return ERR_OK;
}

void compile_bench_destroy(struct compile_bench *b)
{
	if (b == NULL)
		return;
	bench_finish(b);
	alloc_free(b);
}

enum err compile_bench_lease_doc(struct compile_bench *b, const char *file, const struct lease_doc *doc, compile_ruleset_fn *rulesets,
				 void *arg, struct fault_list *faults, struct compiled *out_compiled)
{
	struct compile_around around = b->around;
	struct compiled compiled = { .id = "" };
	struct library_uses uses;
	struct arena arena;
	enum err err;

	around.ruleset = rulesets;
	around.ruleset_arg = arg;
	arena_init(&arena, 0);
	err = bench_lease_doc(b, &arena, &around, file, doc, faults, &uses, &compiled);
	arena_finish(&arena);
	return give(err, &compiled, out_compiled);
}

const struct emitted *compile_bench_preset(const struct compile_bench *b, const uint8_t id[LAYOUT_ID_LEN])
{
	for (const struct preset *p = b->library.presets; p != NULL; p = p->next)
		if (p->is_sound && memcmp(p->segment.id, id, LAYOUT_ID_LEN) == 0)
			return &p->segment;
	return NULL;
}

enum err compile_ruleset_doc(const char *file, const struct ruleset_doc *doc, const struct compile_context *context,
			     struct fault_list *faults, struct emitted *out_segment)
{
	struct policy *policy;
	struct arena arena;
	enum err err;

	arena_init(&arena, 0);
	err = parse_ruleset_doc(&arena, file, doc, context->report_allowed, faults, &policy);
	if (err == ERR_OK)
		err = emit_ruleset(policy, out_segment);
	arena_finish(&arena);
	return err;
}

enum err compile_ceiling_tree(const struct policy *policy, struct library *library, struct fault_list *faults,
			      struct library_uses *out_uses, struct emitted *out_segment)
{
	const struct policy *presets[LIBRARY_USES_MAX];
	size_t errors_before = faults->error_count, merged_count;
	enum err err;

	out_uses->count = 0;
	/* More likely a file that was cut short than an operator who wants nothing to pass. */
	if (policy->rules == NULL && policy->uses == NULL)
		fault_add(faults, (struct fault_place){ .file = policy->file }, FAULT_ERROR, "ceiling_empty",
			  "the ceiling has no rules; write allow any, or what leases may reach at most");
	err = library_resolve(library, policy->uses, faults, out_uses);
	merged_count = out_uses->count;
	/* Those that leases get from it must be sound too, but are no part of it. */
	if (err == ERR_OK)
		err = library_resolve(library, policy->provisioning, faults, out_uses);
	if (err == ERR_OK && faults->error_count > errors_before)
		err = ERR_INVALID;
	if (err != ERR_OK)
		return err;
	for (size_t i = 0; i < merged_count; i++)
		presets[i] = out_uses->presets[i]->policy;
	lint_policy(&(struct lint_context){ .policy = policy, .presets = presets, .preset_count = merged_count }, faults);
	if (faults->out_of_memory)
		return ERR_NO_MEMORY;
	return emit_ceiling(policy, presets, merged_count, out_segment);
}

enum err compile_ceiling_text(const char *file, struct text text, const struct compile_context *context, struct fault_list *faults,
			      struct emitted *out_segment)
{
	const struct parse_as as = { .kind = POLICY_CEILING, .name = "", .report_allowed = context->report_allowed };
	struct library_uses uses;
	struct library library;
	struct policy *policy;
	struct arena arena;
	enum err err;

	arena_init(&arena, 0);
	library_init(&library, read_preset, (void *)(uintptr_t)context, context->report_allowed);
	err = parse_policy(&arena, file, text, &as, faults, &policy);
	if (err == ERR_OK)
		err = compile_ceiling_tree(policy, &library, faults, &uses, out_segment);
	library_finish(&library);
	arena_finish(&arena);
	return err;
}
