/* Root to snapshot and lease table in one process; see candidate.h. Called by explain and, later, by diff and replay. */
#include "cli/candidate.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct candidate {
	struct root *root;          /* owned */
	struct segment **segments;  /* owned array, counted members */
	size_t segment_count, segments_max;
	struct snapshot *snapshot;  /* counted */
	struct lease_table *table;  /* counted */
	uint32_t slots;             /* given so far */
};

static struct segment *find_segment(void *arg, const uint8_t id[LAYOUT_ID_LEN])
{
	const struct candidate *c = arg;

	for (size_t i = 0; i < c->segment_count; i++) {
		if (memcmp(segment_id(c->segments[i]), id, LAYOUT_ID_LEN) == 0)
			return c->segments[i];
	}
	return NULL;
}

static uint32_t next_slot(void *arg, struct text id)
{
	struct candidate *c = arg;

	return c->slots++;
}

static enum err add_segment(struct candidate *c, const struct emitted *emitted)
{
	const char *fault;
	enum err e;

	if (find_segment(c, emitted->id) != NULL)
		return ERR_OK;
	e = segment_open_bytes(emitted->bytes, emitted->len, &c->segments[c->segment_count], &fault);
	if (e == ERR_OK)
		c->segment_count++;
	return e;
}

static enum err add_segments(struct candidate *c)
{
	size_t leases = root_lease_count(c->root), rulesets = root_ruleset_count(c->root);
	enum err e;

	c->segments = alloc_array(leases + rulesets + 1, sizeof(struct segment *));
	if (c->segments == NULL)
		return ERR_NO_MEMORY;
	e = add_segment(c, root_ceiling(c->root));
	for (size_t i = 0; i < rulesets && e == ERR_OK; i++)
		e = add_segment(c, root_ruleset_at(c->root, i));
	for (size_t i = 0; i < leases && e == ERR_OK; i++)
		e = add_segment(c, root_lease_at(c->root, i)->segment);
	return e;
}

static enum err build(struct candidate *c)
{
	struct emitted emitted = { 0 };
	struct segment *root = NULL;
	const char *fault;
	enum err e = add_segments(c);

	if (e == ERR_OK)
		e = root_emit(c->root, 1, &emitted);
	if (e == ERR_OK)
		e = segment_open_bytes(emitted.bytes, emitted.len, &root, &fault);
	if (e == ERR_OK)
		e = snapshot_create(root, find_segment, c, &c->snapshot, &fault);
	if (e == ERR_OK)
		e = lease_table_create(c->snapshot, next_slot, c, &c->table);
	segment_unref(root);
	emitted_finish(&emitted);
	return e;
}

enum err candidate_open(const struct candidate_options *options, struct fault_list *faults,
			struct candidate **out_candidate)
{
	/* The tools read what they are pointed at; whom to trust is the sidecar's question. */
	struct root_options root_options = { .report_allowed = options->report_allowed,
					     .ceiling = options->ceiling };
	struct candidate *c = alloc_zeroed(sizeof(*c));
	char path[PATH_MAX];
	enum err e = ERR_NOT_FOUND;

	if (c == NULL)
		return ERR_NO_MEMORY;
	if (realpath(options->root, path) != NULL)
		e = root_open(path, &root_options, faults, &c->root);
	if (e == ERR_OK)
		e = build(c);
	if (e != ERR_OK) {
		candidate_close(c);
		return e;
	}
	*out_candidate = c;
	return ERR_OK;
}

void candidate_close(struct candidate *c)
{
	if (c == NULL)
		return;
	lease_table_unref(c->table);
	snapshot_unref(c->snapshot);
	for (size_t i = 0; i < c->segment_count; i++)
		segment_unref(c->segments[i]);
	alloc_free(c->segments);
	root_close(c->root);
	alloc_free(c);
}

const struct root *candidate_root(const struct candidate *c)
{
	return c->root;
}

struct snapshot *candidate_snapshot(const struct candidate *c)
{
	return c->snapshot;
}

/* Is `path` the file `below` of the root, or a path that ends in it? */
static bool is_file(const char *path, const char *below)
{
	size_t path_len = strlen(path), len = strlen(below);

	if (path_len < len || strcmp(path + path_len - len, below) != 0)
		return false;
	return path_len == len || path[path_len - len - 1] == '/';
}

const struct lease_table_entry *candidate_lease(const struct candidate *c, const char *lease)
{
	const struct lease_table_entry *entry = lease_table_find(c->table, text_of(lease));

	for (size_t i = 0; entry == NULL && i < root_lease_count(c->root); i++) {
		const struct root_lease *at = root_lease_at(c->root, i);

		if (is_file(lease, at->file))
			entry = lease_table_find(c->table, text_of(at->id));
	}
	return entry;
}

bool candidate_root_of(const char *file, char *out_root, size_t cap)
{
	char path[PATH_MAX];
	char *slash, *folder;

	if (realpath(file, path) == NULL)
		return false;
	slash = strrchr(path, '/');
	*slash = '\0';
	folder = strrchr(path, '/');
	if (folder != NULL && (strcmp(folder, "/leases") == 0 || strcmp(folder, "/presets") == 0))
		*folder = '\0';
	else if (strcmp(slash + 1, "ceiling.policy") != 0)
		return false;
	return snprintf(out_root, cap, "%s", path[0] == '\0' ? "/" : path) < (int)cap;
}
