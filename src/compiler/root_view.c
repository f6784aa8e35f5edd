/* What callers of a root see: leases by id and the shared rulesets. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/root_internal.h"

void root_view_finish(struct root_view *view)
{
	alloc_free(view->leases);
	alloc_free(view->rulesets);
	*view = (struct root_view){ 0 };
}

static int compare_leases(const void *a, const void *b)
{
	return strcmp(((const struct root_lease *)a)->id, ((const struct root_lease *)b)->id);
}

static int compare_segments(const void *left, const void *right)
{
	const struct emitted *const *a = left, *const *b = right;

	return memcmp((*a)->id, (*b)->id, LAYOUT_ID_LEN);
}

/* One lease for each id, in their order; of rivals the first file stands for all. */
static enum err collect_leases(const struct root *root, struct root_view *view)
{
	if (root->file_count == 0)
		return ERR_OK;
	view->leases = alloc_array(root->file_count, sizeof(*view->leases));
	if (view->leases == NULL)
		return ERR_NO_MEMORY;
	for (size_t i = 0; i < root->file_count; i++) {
		const struct root_file *f = root->by_id[i];

		/* Of one id they stand sorted by name; a rival that comes later gives way. */
		if (f->segment.bytes == NULL || (f->rival != NULL && strcmp(f->rival, f->name) < 0))
			continue;
		view->leases[view->lease_count++] = (struct root_lease){
			.id = f->id,
			.file = f->name,
			.is_quarantined = f->is_quarantined,
			.segment = &f->segment,
			.faults = &f->faults,
		};
	}
	return ERR_OK;
}

static bool is_used(const struct root *root, const struct preset *preset)
{
	for (size_t i = 0; i < root->file_count; i++)
		if (!root->files[i]->is_quarantined && root_names_hold(&root->files[i]->uses, preset->name))
			return true;
	return false;
}

static enum err collect_rulesets(const struct root *root, struct root_view *view)
{
	size_t count = 0;

	for (const struct preset *p = root->library.presets; p != NULL; p = p->next)
		count++;
	if (count == 0)
		return ERR_OK;
	view->rulesets = alloc_array(count, sizeof(struct emitted *));
	if (view->rulesets == NULL)
		return ERR_NO_MEMORY;
	for (const struct preset *p = root->library.presets; p != NULL; p = p->next)
		if (p->is_sound && is_used(root, p))
			view->rulesets[view->ruleset_count++] = &p->segment;
	qsort(view->rulesets, view->ruleset_count, sizeof(struct emitted *), compare_segments);
	return ERR_OK;
}

enum err root_view_build(struct root *root, bool is_all)
{
	struct root_view view = { 0 };
	enum err err = is_all ? collect_leases(root, &view) : ERR_OK;

	if (err == ERR_OK)
		err = collect_rulesets(root, &view);
	if (err != ERR_OK) {
		root_view_finish(&view);
		return err;
	}
	if (!is_all) {
		view.leases = root->view.leases;
		view.lease_count = root->view.lease_count;
		root->view.leases = NULL;
	}
	root_view_finish(&root->view);
	root->view = view;
	return ERR_OK;
}

static struct root_lease *find_lease(const struct root *root, const char *id)
{
	const struct root_lease key = { .id = id };

	if (root->view.lease_count == 0)
		return NULL;
	return bsearch(&key, root->view.leases, root->view.lease_count, sizeof(key), compare_leases);
}

void root_view_follow(struct root *root, const struct root_file *f)
{
	struct root_lease *lease = find_lease(root, f->id);
	size_t number, at = 0;

	if (lease == NULL || lease->segment != &f->segment)
		return;
	lease->is_quarantined = f->is_quarantined;
	number = (size_t)(lease - root->view.leases);
	while (at < root->other_count && root->others[at] != number)
		at++;
	if (at == ROOT_OTHERS_MAX)
		root->is_any_other = true;
	else if (at == root->other_count)
		root->others[root->other_count++] = number;
}

bool root_others(const struct root *root, const size_t **out_numbers, size_t *out_count)
{
	if (root->is_any_other)
		return false;
	*out_numbers = root->others;
	*out_count = root->other_count;
	return true;
}

void root_note_taken(struct root *root)
{
	root->is_any_other = false;
	root->other_count = 0;
}

size_t root_lease_count(const struct root *root)
{
	return root->view.lease_count;
}

const struct root_lease *root_lease_at(const struct root *root, size_t index)
{
	return index < root->view.lease_count ? &root->view.leases[index] : NULL;
}

const struct root_lease *root_lease_find(const struct root *root, const char *id)
{
	return find_lease(root, id);
}

bool root_lease_text(const struct root *root, const char *id, struct text *out_text)
{
	const struct root_lease *lease = find_lease(root, id);
	const struct root_file *f = lease == NULL ? NULL : root_find_file(root, lease->file);

	if (f == NULL || f->text == NULL)
		return false;
	*out_text = (struct text){ f->text, f->text_len };
	return true;
}

size_t root_ruleset_count(const struct root *root)
{
	return root->view.ruleset_count;
}

const struct emitted *root_ruleset_at(const struct root *root, size_t index)
{
	return index < root->view.ruleset_count ? root->view.rulesets[index] : NULL;
}

static bool is_segment(const struct emitted *segment, const uint8_t id[LAYOUT_ID_LEN])
{
	return segment->bytes != NULL && memcmp(segment->id, id, LAYOUT_ID_LEN) == 0;
}

const struct emitted *root_segment(const struct root *root, const uint8_t id[LAYOUT_ID_LEN])
{
	const struct root_view *view = &root->view;

	if (is_segment(&root->ceiling.segment, id))
		return &root->ceiling.segment;
	for (size_t i = 0; i < view->ruleset_count; i++)
		if (is_segment(view->rulesets[i], id))
			return view->rulesets[i];
	for (size_t i = 0; i < view->lease_count; i++)
		if (is_segment(view->leases[i].segment, id))
			return view->leases[i].segment;
	return NULL;
}
