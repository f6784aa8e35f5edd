/* Compiles a root and judges targets; see decide.h. */
#include "tests/tables/decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "compiler/compile.h"
#include "compiler/pattern.h"
#include "compiler/root.h"
#include "compiler/source.h"
#include "judge/judge.h"

#define SEGMENTS_MAX 256

struct decide_root {
	struct root *root;
	struct arena arena; /* texts of presets */
	const char *path;
	struct compiled made_up;
	struct segment *held[SEGMENTS_MAX];
	size_t held_count;
	struct snapshot *snapshot;
	struct lease_table *table;
};

static void show_fault(void *arg, const struct fault *fault)
{
	char text[FAULT_TEXT_MAX * 2];

	fault_print(fault, text, sizeof(text));
	fprintf(stderr, "%s\n", text);
}

static enum err read_preset(void *arg, const char *name, struct text *out_text)
{
	struct decide_root *r = arg;
	const struct source_options options = { .trust_check = false };
	char file[128], reason[SOURCE_REASON_MAX];
	struct source_stamp stamp;

	snprintf(file, sizeof(file), "presets/%s.policy", name);
	return source_read(r->path, file, 1u << 20, &options, &r->arena, out_text, &stamp, reason);
}

static void hold(struct decide_root *r, const struct emitted *e)
{
	struct segment *segment = NULL;
	const char *fault = "";

	if (r->held_count == SEGMENTS_MAX || segment_open_bytes(e->bytes, e->len, &segment, &fault) != ERR_OK) {
		fprintf(stderr, "%s: a segment does not hold: %s\n", r->path, fault);
		abort();
	}
	r->held[r->held_count++] = segment;
}

static struct segment *find_held(void *arg, const uint8_t id[LAYOUT_ID_LEN])
{
	struct decide_root *r = arg;

	for (size_t i = 0; i < r->held_count; i++)
		if (memcmp(segment_id(r->held[i]), id, LAYOUT_ID_LEN) == 0)
			return r->held[i];
	return NULL;
}

static uint32_t no_slot(void *arg, struct text id)
{
	return 0;
}

/* Leases of the root and the one made up, as one snapshot. */
static bool build(struct decide_root *r, uint32_t flags)
{
	struct emit_root_lease leases[SEGMENTS_MAX];
	struct layout_id ceiling;
	struct emitted emitted;
	struct segment *segment;
	const char *fault = "";
	size_t count = 0;
	enum err err;

	hold(r, root_ceiling(r->root));
	memcpy(ceiling.bytes, root_ceiling(r->root)->id, sizeof(ceiling.bytes));
	for (size_t i = 0; i < root_ruleset_count(r->root); i++)
		hold(r, root_ruleset_at(r->root, i));
	for (size_t i = 0; i < r->made_up.ruleset_count; i++)
		hold(r, &r->made_up.rulesets[i]);
	for (size_t i = 0; i < root_lease_count(r->root) && count < SEGMENTS_MAX - 1; i++) {
		const struct root_lease *lease = root_lease_at(r->root, i);

		hold(r, lease->segment);
		leases[count].id = lease->id;
		memcpy(leases[count++].segment.bytes, lease->segment->id, LAYOUT_ID_LEN);
	}
	if (r->made_up.lease.bytes != NULL) {
		hold(r, &r->made_up.lease);
		leases[count].id = r->made_up.id;
		memcpy(leases[count++].segment.bytes, r->made_up.lease.id, LAYOUT_ID_LEN);
	}
	if (emit_root(1, 0, &ceiling, flags, leases, count, &emitted) != ERR_OK)
		return false;
	err = segment_open_bytes(emitted.bytes, emitted.len, &segment, &fault);
	emitted_finish(&emitted);
	if (err == ERR_OK) {
		err = snapshot_create(segment, find_held, r, &r->snapshot, &fault);
		segment_unref(segment);
	}
	return err == ERR_OK && lease_table_create(r->snapshot, no_slot, NULL, &r->table) == ERR_OK;
}

struct decide_root *decide_open(const char *path, bool report_allowed, const char *lease_text)
{
	const struct root_options options = { .report_allowed = report_allowed };
	struct decide_root *r = alloc_zeroed(sizeof(*r));
	struct compile_context context = { .preset = read_preset, .arg = r, .report_allowed = report_allowed };
	struct fault_list faults;
	bool good;

	if (r == NULL || crypto_init() != ERR_OK)
		abort();
	r->path = path;
	arena_init(&r->arena, 0);
	fault_list_init(&faults, &r->arena);
	good = root_open(path, &options, &faults, &r->root) == ERR_OK;
	if (good && lease_text != NULL)
		good = compile_lease_text("-", text_of(lease_text), &context, &faults, &r->made_up) == ERR_OK;
	good = good && build(r, report_allowed ? LAYOUT_ROOT_REPORT_ALLOWED : 0);
	for (const struct fault *f = faults.first; f != NULL; f = f->next)
		if (f->severity == FAULT_ERROR)
			show_fault(NULL, f);
	if (!good) {
		decide_close(r);
		return NULL;
	}
	return r;
}

void decide_close(struct decide_root *r)
{
	lease_table_unref(r->table);
	snapshot_unref(r->snapshot);
	for (size_t i = 0; i < r->held_count; i++)
		segment_unref(r->held[i]);
	compiled_finish(&r->made_up);
	root_close(r->root);
	arena_finish(&r->arena);
	alloc_free(r);
}

/* Judge each address as if the name had resolved to them all: the first refusal counts. */
static bool decide_addresses(const struct judge *j, const struct target *target, struct text list, struct verdict *verdict)
{
	const struct verdict request = *verdict;

	while (list.len > 0 && verdict->allow) {
		const char *comma = memchr(list.at, ',', list.len);
		struct text item = { list.at, comma == NULL ? list.len : (size_t)(comma - list.at) };
		size_t taken = item.len + (comma != NULL);
		struct addr_finding finding;
		struct permit permit;
		struct addr address;

		if (!addr_parse(item, &address))
			return false;
		*verdict = judge_address(j, target, &request, &address, &finding, &permit);
		list.at += taken;
		list.len -= taken;
	}
	return true;
}

bool decide(const struct decide_root *r, const char *lease_id, const char *target_text, const char *addresses,
	    struct verdict *out_verdict)
{
	const struct addr_site site = { .own = NULL };
	struct judge j = { .snapshot = r->snapshot, .wall_ms = 1, .site = &site };
	struct pattern_fault fault;
	struct verdict verdict;
	struct target target;
	struct rule asked;
	char own[ADDR_TEXT_MAX];

	j.lease = lease_table_find(r->table, text_of(strcmp(lease_id, "-") == 0 ? r->made_up.id : lease_id));
	if (j.lease == NULL || pattern_parse_target(text_of(target_text), &asked, &fault) != ERR_OK)
		return false;
	if (asked.host == RULE_HOST_PREFIX) {
		target_from_addr(&asked.prefix.addr, asked.ports[0].first, &target);
		addresses = addr_print(&target.addr, own);
	} else if (target_from_host(text_of(asked.name.text), asked.ports[0].first, &target) != TARGET_OK) {
		return false;
	}
	verdict = judge_request(&j, &target);
	if (verdict.allow)
		verdict = judge_redirect(&j, asked.scheme, &target);
	if (verdict.allow && !decide_addresses(&j, &target, text_of(addresses), &verdict))
		return false;
	*out_verdict = verdict;
	return true;
}
