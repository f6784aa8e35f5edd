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

static enum err list_add(struct root *root, struct root_listing *listing, const char *name)
{
	struct root_listed *entry;
	enum err err;

	if (listing->count == ROOT_LEASES_MAX) {
		snprintf(root->reason, sizeof(root->reason), "leases/ holds more than %d files", ROOT_LEASES_MAX);
		return ERR_LIMIT;
	}
	if (listing->count == listing->capacity) {
		size_t capacity = listing->capacity == 0 ? 16 : listing->capacity * 2;
		void *moved = alloc_resize(listing->entries, capacity, sizeof(*listing->entries));

		if (moved == NULL)
			return ERR_NO_MEMORY;
		listing->entries = moved;
		listing->capacity = capacity;
	}
	entry = &listing->entries[listing->count];
	snprintf(entry->name, sizeof(entry->name), "leases/%s", name);
	err = source_stamp(root->path, entry->name, &entry->stamp);
	if (err != ERR_OK) {
		snprintf(root->reason, sizeof(root->reason), "%.260s: %s", entry->name, strerror(errno));
		return err;
	}
	/* Gone between the listing and the look: as if it had not been there. */
	if (entry->stamp.inode != 0)
		listing->count++;
	return ERR_OK;
}

static int compare_listed(const void *a, const void *b)
{
	return strcmp(((const struct root_listed *)a)->name, ((const struct root_listed *)b)->name);
}

enum err root_list(struct root *root, struct root_listing *out_listing)
{
	char path[ROOT_PATH_MAX + 16];
	struct dirent *entry;
	enum err err = ERR_OK;
	DIR *folder;

	snprintf(path, sizeof(path), "%s/leases", root->path);
	folder = opendir(path);
	if (folder == NULL) {
		snprintf(root->reason, sizeof(root->reason), "%.200s: %s", path, strerror(errno));
		return errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_SYSTEM;
	}
	while (err == ERR_OK) {
		errno = 0;
		entry = readdir(folder);
		if (entry == NULL) {
			if (errno != 0) {
				snprintf(root->reason, sizeof(root->reason), "%.200s: %s", path, strerror(errno));
				err = ERR_SYSTEM;
			}
			break;
		}
		if (is_lease_name(entry->d_name))
			err = list_add(root, out_listing, entry->d_name);
	}
	closedir(folder);
	if (err == ERR_OK && out_listing->count > 0)
		qsort(out_listing->entries, out_listing->count, sizeof(*out_listing->entries), compare_listed);
	return err;
}

void root_listing_finish(struct root_listing *listing)
{
	alloc_free(listing->entries);
}

enum err root_file_create(const char *name, struct root_file **out_file)
{
	struct root_file *f = alloc_zeroed(sizeof(*f));

	if (f == NULL)
		return ERR_NO_MEMORY;
	snprintf(f->name, sizeof(f->name), "%s", name);
	arena_init(&f->arena, 0);
	arena_init(&f->link_arena, 0);
	fault_list_init(&f->parse_faults, &f->arena);
	fault_list_init(&f->faults, &f->link_arena);
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
	arena_finish(&f->link_arena);
	alloc_free(f);
}

enum err root_file_read(struct root *root, struct root_file *f, const struct source_stamp *stamp)
{
	char reason[SOURCE_REASON_MAX], id[LEASE_DOC_ID_MAX + 1] = "";
	struct text text;
	enum err err;

	if (f->is_read && source_stamp_is_equal(stamp, &f->stamp))
		return ERR_OK;
	arena_finish(&f->arena);
	arena_init(&f->arena, 0);
	fault_list_init(&f->parse_faults, &f->arena);
	f->policy = NULL;
	f->is_parsed = f->is_read = false;
	f->needs_link = true;
	err = source_read(root->path, f->name, TOKENS_FILE_MAX, &root->source, &f->arena, &text, &f->stamp, reason);
	if (err == ERR_NO_MEMORY)
		return err;
	if (err != ERR_OK) {
		fault_add(&f->parse_faults, (struct fault_place){ .file = f->name }, FAULT_ERROR, "unreadable", "%s", reason);
		return f->parse_faults.out_of_memory ? ERR_NO_MEMORY : ERR_OK;
	}
	err = compile_parse_lease(&f->arena, f->name, text, root->report_allowed, &f->parse_faults, &f->policy, id);
	if (err == ERR_NO_MEMORY)
		return err;
	f->is_read = true;
	f->is_parsed = err == ERR_OK;
	if (id[0] != '\0')
		memcpy(f->id, id, sizeof(f->id));
	return ERR_OK;
}

/* Start the faults of the link with those of the parse. */
static void begin_faults(struct root_file *f)
{
	arena_finish(&f->link_arena);
	arena_init(&f->link_arena, 0);
	fault_list_init(&f->faults, &f->link_arena);
	for (const struct fault *p = f->parse_faults.first; p != NULL; p = p->next)
		fault_add(&f->faults, p->place, p->severity, p->code, "%s", p->text);
	f->faults.error_count = f->parse_faults.error_count;
	f->faults.warning_count = f->parse_faults.warning_count;
}

/* Compile a file that parsed; INVALID when it has to be quarantined. */
static enum err compile_file(struct root *root, struct root_file *f)
{
	const struct compile_around around = { .library = &root->library, .ceiling = root->ceiling.policy };
	struct fault_place place = f->policy == NULL ? (struct fault_place){ .file = f->name } : f->policy->name_place;
	struct library_uses uses = { .count = 0 };
	enum err err = ERR_INVALID;

	root_names_finish(&f->uses);
	if (f->rival != NULL)
		fault_add(&f->faults, place, FAULT_ERROR, "duplicate_lease", "%s is a lease in %s too; both are refused", f->id, f->rival);
	if (!root->ceiling.is_sound)
		fault_add(&f->faults, place, FAULT_ERROR, "ceiling_faulty", "the ceiling has faults, so every lease is refused");
	if (f->is_parsed)
		err = compile_tree(f->policy, &around, &f->faults, &uses, &f->segment);
	for (size_t i = 0; i < uses.count; i++)
		if (root_names_add(&f->uses, uses.presets[i]->name) != ERR_OK)
			return ERR_NO_MEMORY;
	if (f->faults.out_of_memory)
		return ERR_NO_MEMORY;
	return err == ERR_OK && f->faults.error_count > 0 ? ERR_INVALID : err;
}

enum err root_file_link(struct root *root, struct root_file *f)
{
	enum err err;

	emitted_finish(&f->segment);
	begin_faults(f);
	err = compile_file(root, f);
	f->is_quarantined = err == ERR_INVALID;
	if (err == ERR_INVALID) {
		emitted_finish(&f->segment);
		err = f->id[0] == '\0' ? ERR_OK : emit_quarantined(f->id, f->policy, &f->segment);
	}
	f->needs_link = err != ERR_OK;
	return err;
}

static int compare_files(const void *left, const void *right)
{
	const struct root_file *const *a = left, *const *b = right;
	int order = strcmp((*a)->id, (*b)->id);

	return order != 0 ? order : strcmp((*a)->name, (*b)->name);
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

enum err root_find_duplicates(struct root *root)
{
	struct root_file **sorted;

	if (root->file_count == 0)
		return ERR_OK;
	sorted = alloc_array(root->file_count, sizeof(struct root_file *));
	if (sorted == NULL)
		return ERR_NO_MEMORY;
	memcpy(sorted, root->files, root->file_count * sizeof(struct root_file *));
	qsort(sorted, root->file_count, sizeof(struct root_file *), compare_files);
	for (size_t i = 0; i < root->file_count; i++) {
		const char *rival = rival_of(sorted, root->file_count, i);

		/* The rival's name may have moved, so the sentence is written anew. */
		if (rival != NULL || sorted[i]->rival != NULL)
			sorted[i]->needs_link = true;
		sorted[i]->rival = rival;
	}
	alloc_free(sorted);
	return ERR_OK;
}
