/* The files of leases/: listed, read when they changed, parsed, linked with ceiling and presets; see root_internal.h. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/root_internal.h"

void root_names_finish(struct root_names *names)
{
	alloc_free(names->name);
	*names = (struct root_names){ 0 };
}

enum err root_names_add(struct root_names *names, const char *name)
{
	void *moved = alloc_resize(names->name, names->count + 1, sizeof(*names->name));

	if (moved == NULL)
		return ERR_NO_MEMORY;
	names->name = moved;
	snprintf(names->name[names->count++], sizeof(*names->name), "%s", name);
	return ERR_OK;
}

bool root_names_hold(const struct root_names *names, const char *name)
{
	for (size_t i = 0; i < names->count; i++)
		if (strcmp(names->name[i], name) == 0)
			return true;
	return false;
}

static bool ends_with(const char *name, const char *end)
{
	size_t len = strlen(name), end_len = strlen(end);

	return len > end_len && strcmp(name + len - end_len, end) == 0;
}

/* Hidden files are what editors and publishers leave while they work. */
static bool is_lease_name(const char *name)
{
	return name[0] != '.' && (ends_with(name, ".policy") || ends_with(name, ".json"));
}

static bool has_name(const struct htab_node *node, const void *key)
{
	return strcmp(CONTAINER_OF(node, const struct root_file, node)->name, key) == 0;
}

struct root_file *root_find_file(const struct root *root, const char *name)
{
	struct htab_node *node = htab_find(&root->by_name, hash_bytes(&root->key, name, strlen(name)), has_name, name);

	return node == NULL ? NULL : CONTAINER_OF(node, struct root_file, node);
}

static enum err make_room(struct root *root, struct root_listing *listing)
{
	size_t capacity = listing->capacity == 0 ? 16 : listing->capacity * 2;
	void *moved;

	if (listing->count == ROOT_LEASES_MAX) {
		snprintf(root->reason, sizeof(root->reason), "leases/ holds more than %d files", ROOT_LEASES_MAX);
		return ERR_LIMIT;
	}
	if (listing->count < listing->capacity)
		return ERR_OK;
	moved = alloc_resize(listing->entries, capacity, sizeof(*listing->entries));
	if (moved == NULL)
		return ERR_NO_MEMORY;
	listing->entries = moved;
	listing->capacity = capacity;
	return ERR_OK;
}

/* `name` below leases/. */
static enum err list_add(struct root *root, struct root_listing *listing, const char *name)
{
	char path[ROOT_FILE_NAME_MAX + 8];
	struct root_listed *entry;
	enum err err = make_room(root, listing);

	if (err != ERR_OK)
		return err;
	entry = &listing->entries[listing->count];
	snprintf(path, sizeof(path), "leases/%s", name);
	err = source_stamp_at(dirfd(listing->folder), name, &entry->stamp);
	if (err != ERR_OK) {
		snprintf(root->reason, sizeof(root->reason), "%.260s: %s", path, strerror(errno));
		return err;
	}
	/* Gone before anybody knew it. */
	if (entry->stamp.inode == 0 && root_find_file(root, path) == NULL)
		return ERR_OK;
	entry->name = arena_text(&listing->arena, path, strlen(path));
	if (entry->name == NULL)
		return ERR_NO_MEMORY;
	listing->count++;
	return ERR_OK;
}

enum err root_listing_begin(struct root *root, bool is_whole, struct root_listing *out_listing)
{
	char path[ROOT_PATH_MAX + 16];

	*out_listing = (struct root_listing){ .is_whole = is_whole };
	arena_init(&out_listing->arena, 0);
	snprintf(path, sizeof(path), "%s/leases", root->path);
	out_listing->folder = opendir(path);
	if (out_listing->folder != NULL)
		return ERR_OK;
	snprintf(root->reason, sizeof(root->reason), "%.200s: %s", path, strerror(errno));
	return errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_SYSTEM;
}

void root_listing_finish(struct root_listing *listing)
{
	if (listing->folder != NULL)
		closedir(listing->folder);
	listing->folder = NULL;
	alloc_free(listing->entries);
	listing->entries = NULL;
	arena_finish(&listing->arena);
}

enum err root_list_more(struct root *root, struct root_listing *listing, size_t count, bool *out_is_done)
{
	const struct dirent *entry;
	enum err err = ERR_OK;

	*out_is_done = false;
	for (size_t i = 0; i < count && err == ERR_OK; i++) {
		errno = 0;
		entry = readdir(listing->folder);
		if (entry == NULL && errno != 0) {
			snprintf(root->reason, sizeof(root->reason), "leases/: %s", strerror(errno));
			return ERR_SYSTEM;
		}
		if (entry == NULL) {
			*out_is_done = true;
			return ERR_OK;
		}
		if (is_lease_name(entry->d_name))
			err = list_add(root, listing, entry->d_name);
	}
	return err;
}

enum err root_list_some(struct root *root, struct root_listing *listing, const char *const *names, size_t count)
{
	enum err err = ERR_OK;

	for (size_t i = 0; i < count && err == ERR_OK; i++)
		if (is_lease_name(names[i]) && strchr(names[i], '/') == NULL && strlen(names[i]) <= ROOT_FILE_NAME_MAX)
			err = list_add(root, listing, names[i]);
	return err;
}

enum err root_list_again(struct root *root, struct root_listing *listing)
{
	size_t skip = strlen("leases/"), listed = listing->count;
	enum err err = ERR_OK;

	for (size_t i = 0; i < listed && err == ERR_OK; i++) {
		struct root_listed *entry = &listing->entries[i];

		if (root_find_file(root, entry->name) == NULL)
			err = source_stamp_at(dirfd(listing->folder), entry->name + skip, &entry->stamp);
	}
	for (size_t i = 0; i < root->file_count && err == ERR_OK; i++)
		if (root->files[i]->is_ahead)
			err = list_add(root, listing, root->files[i]->name + skip);
	return err;
}

enum err root_file_create(const char *name, struct root_file **out_file)
{
	size_t len = strlen(name);
	struct root_file *f = alloc_zeroed(sizeof(*f) + len + 1);

	if (f == NULL)
		return ERR_NO_MEMORY;
	memcpy(f->name, name, len);
	f->is_new = true;
	arena_init(&f->arena, 0);
	fault_list_init(&f->faults, &f->arena);
	*out_file = f;
	return ERR_OK;
}

void root_file_destroy(struct root_file *f)
{
	if (f == NULL)
		return;
	emitted_finish(&f->segment);
	root_names_finish(&f->uses);
	arena_finish(&f->arena);
	alloc_free(f->text);
	alloc_free(f->unreadable);
	alloc_free(f);
}

/* Keep the text, or why there is none. */
static enum err keep_text(struct root_file *f, enum err read, struct text text, const char *reason)
{
	alloc_free(f->text);
	alloc_free(f->unreadable);
	f->text = f->unreadable = NULL;
	if (read != ERR_OK)
		f->unreadable = alloc_copy(reason, strlen(reason));
	else
		f->text = alloc_copy(text.len == 0 ? "" : text.at, text.len);
	f->text_len = text.len;
	return f->text == NULL && f->unreadable == NULL ? ERR_NO_MEMORY : ERR_OK;
}

/* Whose lease is it? What is wrong with it is told when it is linked. */
static enum err find_id(struct root *root, struct root_file *f)
{
	char id[LEASE_DOC_ID_MAX + 1] = "";
	struct fault_list unused;
	struct policy *policy;
	struct arena arena;
	enum err err;

	arena_init(&arena, 0);
	fault_list_init(&unused, &arena);
	err = compile_parse_lease(&arena, f->name, (struct text){ f->text, f->text_len }, root->report_allowed, &unused, &policy, id);
	arena_finish(&arena);
	if (err == ERR_NO_MEMORY)
		return err;
	if (id[0] != '\0' && strcmp(f->id, id) != 0) {
		memcpy(f->id, id, sizeof(f->id));
		f->is_placed = false;
		root->has_moved = true;
	}
	return ERR_OK;
}

enum err root_file_read(struct root *root, struct root_file *f, const struct source_stamp *stamp)
{
	char reason[SOURCE_REASON_MAX];
	struct text text = { NULL, 0 };
	struct arena arena;
	enum err err, kept;

	if (f->is_read && (source_stamp_is_equal(stamp, &f->stamp) ||
			   source_is_same(root->path, f->name, TOKENS_FILE_MAX, &root->source, (struct text){ f->text, f->text_len }, &f->stamp)))
		return ERR_OK;
	f->is_read = false;
	f->needs_link = true;
	arena_init(&arena, 0);
	err = source_read(root->path, f->name, TOKENS_FILE_MAX, &root->source, &arena, &text, &f->stamp, reason);
	kept = err == ERR_NO_MEMORY ? err : keep_text(f, err, text, reason);
	arena_finish(&arena);
	if (kept != ERR_OK || err != ERR_OK)
		return kept;
	err = find_id(root, f);
	f->is_read = err == ERR_OK;
	return err;
}

/* What compiling a file needs, while it does. */
struct link {
	struct arena arena;    /* the tree */
	struct policy *policy; /* NULL when there is none at all */
	bool is_parsed;        /* without a fault */
};

/* The tree, and its faults anew. Fails only for memory. */
static enum err parse_again(const struct root *root, struct root_file *f, struct link *l)
{
	char id[LEASE_DOC_ID_MAX + 1];
	enum err err;

	arena_finish(&f->arena);
	arena_init(&f->arena, 0);
	fault_list_init(&f->faults, &f->arena);
	if (f->text == NULL) {
		fault_add(&f->faults, (struct fault_place){ .file = f->name }, FAULT_ERROR, "unreadable", "%s",
			  f->unreadable == NULL ? "" : f->unreadable);
		return ERR_OK;
	}
	err = compile_parse_lease(&l->arena, f->name, (struct text){ f->text, f->text_len }, root->report_allowed, &f->faults, &l->policy,
				  id);
	l->is_parsed = err == ERR_OK;
	return err == ERR_NO_MEMORY ? err : ERR_OK;
}

/* Compile a file; INVALID when it has to be quarantined. */
static enum err compile_file(struct root *root, struct root_file *f, const struct link *l)
{
	const struct compile_around around = { .library = &root->library, .ceiling = root->ceiling.policy };
	struct fault_place place = l->policy == NULL ? (struct fault_place){ .file = f->name } : l->policy->name_place;
	struct library_uses uses = { .count = 0 };
	enum err err = ERR_INVALID;

	root_names_finish(&f->uses);
	if (f->rival != NULL)
		fault_add(&f->faults, place, FAULT_ERROR, "duplicate_lease", "%s is a lease in %s too; both are refused", f->id, f->rival);
	if (!root->ceiling.is_sound)
		fault_add(&f->faults, place, FAULT_ERROR, "ceiling_faulty", "the ceiling has faults, so every lease is refused");
	if (l->is_parsed)
		err = compile_tree(l->policy, &around, &f->faults, &uses, &f->segment);
	for (size_t i = 0; i < uses.count; i++)
		if (root_names_add(&f->uses, uses.presets[i]->name) != ERR_OK)
			return ERR_NO_MEMORY;
	if (f->faults.out_of_memory)
		return ERR_NO_MEMORY;
	return err == ERR_OK && f->faults.error_count > 0 ? ERR_INVALID : err;
}

enum err root_file_link(struct root *root, struct root_file *f)
{
	struct emitted before = { .len = f->segment.len };
	struct link l = { .policy = NULL };
	enum err err;

	memcpy(before.id, f->segment.id, sizeof(before.id));
	arena_init(&l.arena, 0);
	emitted_finish(&f->segment);
	err = parse_again(root, f, &l);
	if (err == ERR_OK)
		err = compile_file(root, f, &l);
	f->is_quarantined = err == ERR_INVALID;
	if (err == ERR_INVALID) {
		emitted_finish(&f->segment);
		err = f->id[0] == '\0' ? ERR_OK : emit_quarantined(f->id, l.policy, &f->segment);
	}
	f->needs_link = err != ERR_OK;
	root->has_changed = root->has_changed || f->segment.len != before.len || memcmp(f->segment.id, before.id, sizeof(before.id)) != 0;
	arena_finish(&l.arena);
	return err;
}
