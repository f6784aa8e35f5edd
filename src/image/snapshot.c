/*
 * A root and the segments it names, held together by reference. Compares kinds and ids once; knows nothing of rules. Called by daemon,
 * lease, policy and tools.
 */
#include "image/snapshot.h"

#include <string.h>

#include "base/alloc.h"
#include "base/refcount.h"

struct snapshot {
	struct refcount refs;
	struct segment *root;          /* counted */
	struct segment *ceiling;       /* counted */
	struct snapshot_lease *leases; /* owned, in the order of the root */
	uint32_t lease_count;
};

static void destroy(struct snapshot *s)
{
	for (uint32_t i = 0; s->leases != NULL && i < s->lease_count; i++) {
		struct snapshot_lease *l = &s->leases[i];

		for (uint32_t k = 0; k < l->ruleset_count; k++)
			segment_unref(l->rulesets[k]);
		alloc_free(l->rulesets);
		segment_unref(l->segment);
	}
	alloc_free(s->leases);
	segment_unref(s->ceiling);
	segment_unref(s->root);
	alloc_free(s);
}

struct finder {
	snapshot_find_fn *find;
	void *arg;
	const char **out_fault;
};

static enum err find_kind(const struct finder *f, const struct layout_id *id, enum layout_kind kind,
			  struct segment **out_segment)
{
	struct segment *found = f->find(f->arg, id->bytes);

	if (found == NULL) {
		*f->out_fault = "a named segment is missing";
		return ERR_NOT_FOUND;
	}
	if (segment_kind(found) != kind || memcmp(segment_id(found), id->bytes, LAYOUT_ID_LEN) != 0) {
		*f->out_fault = "a named segment is of another kind";
		return ERR_INVALID;
	}
	*out_segment = segment_ref(found);
	return ERR_OK;
}

static enum err add_rulesets(const struct finder *f, struct snapshot_lease *lease)
{
	uint32_t count;
	const struct layout_id *ids = segment_table(lease->segment, LAYOUT_RULESETS, &count);

	if (count == 0)
		return ERR_OK;
	lease->rulesets = alloc_array(count, sizeof(struct segment *));
	if (lease->rulesets == NULL)
		return ERR_NO_MEMORY;
	for (; lease->ruleset_count < count; lease->ruleset_count++) {
		enum err err = find_kind(f, &ids[lease->ruleset_count], LAYOUT_RULESET,
					 &lease->rulesets[lease->ruleset_count]);

		if (err != ERR_OK)
			return err;
	}
	return ERR_OK;
}

static enum err add_lease(const struct finder *f, struct snapshot *s, uint32_t index,
			  const struct layout_root_lease *named)
{
	struct snapshot_lease *lease = &s->leases[index];
	enum err err = find_kind(f, &named->segment, LAYOUT_LEASE, &lease->segment);

	if (err != ERR_OK)
		return err;
	lease->index = index;
	if (!text_equal(segment_text(s->root, named->id),
			segment_text(lease->segment, segment_lease(lease->segment)->id))) {
		*f->out_fault = "a lease segment is of another lease";
		return ERR_INVALID;
	}
	return add_rulesets(f, lease);
}

enum err snapshot_create(struct segment *root, snapshot_find_fn *find, void *arg,
			 struct snapshot **out_snapshot, const char **out_fault)
{
	struct finder f = { .find = find, .arg = arg, .out_fault = out_fault };
	const struct layout_root_lease *named;
	struct snapshot *s;
	enum err err;

	*out_fault = "out of memory";
	if (segment_kind(root) != LAYOUT_ROOT) {
		*out_fault = "the root is of another kind";
		return ERR_INVALID;
	}
	if (segment_root(root)->base != 0) {
		*out_fault = "the root is not complete";
		return ERR_INVALID;
	}
	s = alloc_zeroed(sizeof(*s));
	if (s == NULL)
		return ERR_NO_MEMORY;
	refcount_init(&s->refs);
	s->root = segment_ref(root);
	named = segment_table(root, LAYOUT_ROOT_LEASES, &s->lease_count);
	err = find_kind(&f, &segment_root(root)->ceiling, LAYOUT_CEILING, &s->ceiling);
	if (err == ERR_OK && s->lease_count > 0) {
		s->leases = alloc_array(s->lease_count, sizeof(*s->leases));
		if (s->leases == NULL)
			err = ERR_NO_MEMORY;
	}
	for (uint32_t i = 0; err == ERR_OK && i < s->lease_count; i++)
		err = add_lease(&f, s, i, &named[i]);
	if (err != ERR_OK) {
		destroy(s);
		return err;
	}
	*out_snapshot = s;
	return ERR_OK;
}

struct snapshot *snapshot_ref(struct snapshot *s)
{
	refcount_ref(&s->refs);
	return s;
}

void snapshot_unref(struct snapshot *s)
{
	if (s != NULL && refcount_unref(&s->refs))
		destroy(s);
}

uint64_t snapshot_version(const struct snapshot *s)
{
	return segment_root(s->root)->version;
}

bool snapshot_report_allowed(const struct snapshot *s)
{
	return (segment_root(s->root)->flags & LAYOUT_ROOT_REPORT_ALLOWED) != 0;
}

struct segment *snapshot_ceiling(const struct snapshot *s)
{
	return s->ceiling;
}

size_t snapshot_lease_count(const struct snapshot *s)
{
	return s->lease_count;
}

const struct snapshot_lease *snapshot_lease_at(const struct snapshot *s, size_t index)
{
	return index < s->lease_count ? &s->leases[index] : NULL;
}

const struct snapshot_lease *snapshot_lease_find(const struct snapshot *s, struct text id)
{
	uint32_t count, low = 0, high;
	const struct layout_root_lease *named = segment_table(s->root, LAYOUT_ROOT_LEASES, &count);

	for (high = count; low < high;) {
		uint32_t middle = low + (high - low) / 2;
		int order = segment_compare_ids(segment_text(s->root, named[middle].id), id);

		if (order == 0)
			return &s->leases[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static bool same_segment(const struct segment *a, const struct segment *b)
{
	return memcmp(segment_id(a), segment_id(b), LAYOUT_ID_LEN) == 0;
}

bool snapshot_lease_changed(const struct snapshot *before, const struct snapshot *after, struct text id)
{
	const struct snapshot_lease *was = before == NULL ? NULL : snapshot_lease_find(before, id);
	const struct snapshot_lease *is = after == NULL ? NULL : snapshot_lease_find(after, id);

	if (was == NULL || is == NULL)
		return was != is;
	/* Rulesets are named by digest inside the lease's segment, so its digest covers them. */
	return !same_segment(was->segment, is->segment) ||
	       !same_segment(before->ceiling, after->ceiling) ||
	       snapshot_report_allowed(before) != snapshot_report_allowed(after);
}
