/* Presets, each compiled once and shared; see library.h. Reads only through the function that it is given. */
#include "compiler/library.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/parse.h"

void library_init(struct library *l, library_read_fn *read, void *arg, bool report_allowed)
{
	*l = (struct library){ .read = read, .arg = arg, .report_allowed = report_allowed };
}

static void preset_destroy(struct preset *preset)
{
	emitted_finish(&preset->segment);
	arena_finish(&preset->arena);
	alloc_free(preset);
}

void library_finish(struct library *l)
{
	while (l->presets != NULL) {
		struct preset *next = l->presets->next;

		preset_destroy(l->presets);
		l->presets = next;
	}
}

void library_forget(struct library *l, struct preset *preset)
{
	for (struct preset **at = &l->presets; *at != NULL; at = &(*at)->next) {
		if (*at == preset) {
			*at = preset->next;
			preset_destroy(preset);
			return;
		}
	}
}

/* Fill in a preset that has its name. Fails only for memory. */
static enum err preset_read(struct library *l, struct preset *preset)
{
	const struct parse_as as = { .kind = POLICY_PRESET, .name = preset->name, .report_allowed = l->report_allowed };
	char reason[SOURCE_REASON_MAX];
	struct policy *policy;
	enum err err = l->read(l->arg, preset, &preset->arena, &preset->text, &preset->stamp, reason);

	if (err == ERR_NO_MEMORY)
		return err;
	preset->is_missing = err == ERR_NOT_FOUND;
	if (preset->is_missing)
		return ERR_OK;
	if (err != ERR_OK) {
		fault_add(&preset->faults, (struct fault_place){ .file = preset->file }, FAULT_ERROR, "unreadable", "%s", reason);
		return ERR_OK;
	}
	err = parse_policy(&preset->arena, preset->file, preset->text, &as, &preset->faults, &policy);
	if (err == ERR_OK)
		err = emit_ruleset(policy, &preset->segment);
	if (err == ERR_LIMIT)
		fault_add(&preset->faults, (struct fault_place){ .file = preset->file }, FAULT_ERROR, "too_long",
			  "the preset has more rules than a segment can hold");
	if (err == ERR_OK) {
		preset->policy = policy;
		preset->is_sound = true;
	}
	return err == ERR_INVALID || err == ERR_LIMIT ? ERR_OK : err;
}

enum err library_get(struct library *l, const char *name, struct preset **out_preset)
{
	struct preset *preset;
	enum err err;

	for (preset = l->presets; preset != NULL; preset = preset->next) {
		if (strcmp(preset->name, name) == 0) {
			*out_preset = preset;
			return ERR_OK;
		}
	}
	preset = alloc_zeroed(sizeof(*preset));
	if (preset == NULL)
		return ERR_NO_MEMORY;
	arena_init(&preset->arena, 0);
	fault_list_init(&preset->faults, &preset->arena);
	snprintf(preset->name, sizeof(preset->name), "%s", name);
	snprintf(preset->file, sizeof(preset->file), "presets/%s.policy", preset->name);
	err = preset_read(l, preset);
	if (err != ERR_OK) {
		preset_destroy(preset);
		return err;
	}
	preset->next = l->presets;
	l->presets = preset;
	*out_preset = preset;
	return ERR_OK;
}

static bool uses_hold(const struct library_uses *uses, const struct preset *preset)
{
	for (size_t i = 0; i < uses->count; i++)
		if (uses->presets[i] == preset)
			return true;
	return false;
}

/* Add one preset unless it is there; faults go to where the policy named it or what led to it. */
static enum err uses_add(struct library *l, const char *name, struct fault_place place, struct fault_list *faults,
			 struct library_uses *uses)
{
	struct preset *preset;
	enum err err = library_get(l, name, &preset);

	if (err != ERR_OK || uses_hold(uses, preset))
		return err;
	if (uses->count == LIBRARY_USES_MAX) {
		fault_add(faults, place, FAULT_ERROR, "too_many", "at most %d presets can be used together", LIBRARY_USES_MAX);
		return ERR_OK;
	}
	uses->presets[uses->count++] = preset;
	if (preset->is_missing) {
		fault_add(faults, place, FAULT_ERROR, "preset_missing", "there is no preset %s (%s)", name, preset->file);
	} else if (!preset->is_sound) {
		char first[FAULT_TEXT_MAX] = "";

		if (preset->faults.first != NULL)
			fault_print(preset->faults.first, first, sizeof(first));
		fault_add(faults, place, FAULT_ERROR, "preset_faulty", "the preset %s has a fault: %s", name, first);
	}
	return ERR_OK;
}

enum err library_resolve(struct library *l, const struct policy_use *uses, struct fault_list *faults, struct library_uses *uses_so_far)
{
	struct fault_place places[LIBRARY_USES_MAX];
	size_t next = uses_so_far->count;

	for (; uses != NULL; uses = uses->next) {
		size_t before = uses_so_far->count;
		enum err err = uses->name[0] == '\0' ? ERR_OK : uses_add(l, uses->name, uses->place, faults, uses_so_far);

		if (err != ERR_OK)
			return err;
		if (uses_so_far->count > before)
			places[before] = uses->place;
	}
	/* Breadth first: a preset that leads back to one that is listed adds nothing, so loops end by themselves. */
	for (; next < uses_so_far->count; next++) {
		const struct policy *policy = uses_so_far->presets[next]->policy;

		for (const struct policy_use *u = policy == NULL ? NULL : policy->uses; u != NULL; u = u->next) {
			size_t before = uses_so_far->count;
			enum err err = uses_add(l, u->name, places[next], faults, uses_so_far);

			if (err != ERR_OK)
				return err;
			if (uses_so_far->count > before)
				places[before] = places[next];
		}
	}
	return ERR_OK;
}
