/* The files of a root by name and by id, kept sorted from refresh to refresh: one that came is put between the others. Called by root.c. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/root_internal.h"

static int compare_names(const void *left, const void *right)
{
	const struct root_file *const *a = left, *const *b = right;

	return strcmp((*a)->name, (*b)->name);
}

static int compare_ids(const void *left, const void *right)
{
	const struct root_file *const *a = left, *const *b = right;
	int order = strcmp((*a)->id, (*b)->id);

	return order != 0 ? order : compare_names(left, right);
}

typedef int compare_fn(const void *left, const void *right);

/* The first place in sorted[from…) whose file belongs behind `file`: few are put between many, so it is searched and not walked to. */
static size_t place_of(struct root_file *const *sorted, size_t from, size_t count, struct root_file *const *file, compare_fn *compare)
{
	size_t to = count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (compare(&sorted[middle], file) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* A new array: what stays of a sorted one, and `fresh` (sorted here) where they belong. NULL without memory. */
static struct root_file **merge(struct root_file *const *sorted, size_t count, struct root_file **fresh, size_t fresh_count, compare_fn *compare)
{
	struct root_file **merged = alloc_array(count + fresh_count + 1, sizeof(*merged));
	size_t at = 0, filled = 0;

	if (merged == NULL)
		return NULL;
	if (fresh_count > 0)
		qsort(fresh, fresh_count, sizeof(*fresh), compare);
	for (size_t i = 0; i <= fresh_count; i++) {
		size_t end = i == fresh_count ? count : place_of(sorted, at, count, &fresh[i], compare);

		if (end > at)
			memcpy(merged + filled, sorted + at, (end - at) * sizeof(*merged));
		filled += end - at;
		at = end;
		if (i < fresh_count)
			merged[filled++] = fresh[i];
	}
	return merged;
}

/* Leave in place what is listed still and, of `by_id`, has its id still; the number of those. */
static size_t keep(struct root_file **sorted, size_t count, bool is_by_id)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (sorted[i]->is_listed && (!is_by_id || sorted[i]->is_placed))
			sorted[kept++] = sorted[i];
	return kept;
}

static void forget_unlisted(struct root *root)
{
	struct htab_node *node = htab_next(&root->by_name, NULL), *next;

	for (; node != NULL; node = next) {
		struct root_file *f = CONTAINER_OF(node, struct root_file, node);

		next = htab_next(&root->by_name, node);
		if (f->is_listed)
			continue;
		root->has_changed = root->has_changed || f->segment.bytes != NULL;
		htab_remove(&root->by_name, node);
		root_file_destroy(f);
	}
}

/* All files without a place, those that are in `files` already first. */
static struct root_file **gather_fresh(const struct root *root, size_t *out_old, size_t *out_count)
{
	struct root_file **fresh = alloc_array(root->by_name.count + 1, sizeof(*fresh));
	size_t count = 0;

	if (fresh == NULL)
		return NULL;
	for (size_t i = 0; i < root->file_count; i++)
		if (root->files[i]->is_listed && !root->files[i]->is_placed)
			fresh[count++] = root->files[i];
	*out_old = count;
	for (struct htab_node *node = htab_next(&root->by_name, NULL); node != NULL; node = htab_next(&root->by_name, node)) {
		struct root_file *f = CONTAINER_OF(node, struct root_file, node);

		if (f->is_listed && f->is_new)
			fresh[count++] = f;
	}
	*out_count = count;
	return fresh;
}

enum err root_place_files(struct root *root)
{
	struct root_file **fresh, **files = NULL, **by_id = NULL;
	size_t old, count, kept_files, kept_ids;

	fresh = gather_fresh(root, &old, &count);
	if (fresh == NULL)
		return ERR_NO_MEMORY;
	kept_files = keep(root->files, root->file_count, false);
	kept_ids = keep(root->by_id, root->file_count, true);
	/* From here on the arrays are not whole; without memory everything is forgotten. */
	root->file_count = 0;
	files = merge(root->files, kept_files, fresh + old, count - old, compare_names);
	by_id = merge(root->by_id, kept_ids, fresh, count, compare_ids);
	if (files != NULL && by_id != NULL) {
		for (size_t i = 0; i < count; i++) {
			fresh[i]->is_placed = true;
			fresh[i]->is_new = false;
		}
		forget_unlisted(root);
		root->file_count = root->by_name.count;
	}
	alloc_free(fresh);
	alloc_free(root->files);
	alloc_free(root->by_id);
	root->files = files;
	root->by_id = by_id;
	return files != NULL && by_id != NULL ? ERR_OK : ERR_NO_MEMORY;
}

/* The name of another file with the id of sorted[at]; NULL if there is none. */
static const char *rival_of(struct root_file *const *sorted, size_t count, size_t at)
{
	if (sorted[at]->id[0] == '\0')
		return NULL;
	if (at > 0 && strcmp(sorted[at - 1]->id, sorted[at]->id) == 0)
		return sorted[at - 1]->name;
	if (at + 1 < count && strcmp(sorted[at + 1]->id, sorted[at]->id) == 0)
		return sorted[at + 1]->name;
	return NULL;
}

void root_find_duplicates(struct root *root)
{
	for (size_t i = 0; i < root->file_count; i++) {
		struct root_file *f = root->by_id[i];
		const char *rival = rival_of(root->by_id, root->file_count, i);

		/* The rival's name may have moved, so the sentence is written anew. */
		if (rival != NULL || f->rival != NULL)
			f->needs_link = true;
		f->rival = rival;
	}
}
