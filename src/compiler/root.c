/*
 * A policy root kept compiled; see root.h. Order of a refresh: trust and listing first (what fails here changes nothing), then ceiling, presets
 * and leases, then the view that callers see. Knows no daemon and no freshness.
 */
#include "compiler/root.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "compiler/parse.h"
#include "compiler/root_internal.h"

static enum err read_preset(void *arg, const struct preset *preset, struct arena *arena, struct text *out_text,
			    struct source_stamp *out_stamp, char out_reason[SOURCE_REASON_MAX])
{
	const struct root *root = arg;

	return source_read(root->path, preset->file, TOKENS_FILE_MAX, &root->source, arena, out_text, out_stamp, out_reason);
}

static void ceiling_reset(struct root_ceiling *c)
{
	emitted_finish(&c->segment);
	arena_finish(&c->arena);
	arena_init(&c->arena, 0);
	fault_list_init(&c->faults, &c->arena);
	root_names_finish(&c->uses);
	c->policy = NULL;
	c->is_sound = false;
}

/* Forget everything, so that the next refresh reads it all again. */
static void root_drop(struct root *root)
{
	struct htab_node *node, *next;

	HTAB_FOREACH (node, next, &root->by_name) {
		htab_remove(&root->by_name, node);
		root_file_destroy(CONTAINER_OF(node, struct root_file, node));
	}
	root->file_count = 0;
	root->has_moved = false;
	root->is_any_other = true;
	root_view_finish(&root->view);
	library_finish(&root->library);
	library_init(&root->library, read_preset, root, root->report_allowed);
	ceiling_reset(&root->ceiling);
	root->ceiling.stamp = (struct source_stamp){ 0 };
	root->ceiling.is_read = false;
}

void root_close(struct root *root)
{
	if (root == NULL)
		return;
	root_pass_drop(root);
	root_drop(root);
	arena_finish(&root->ceiling.arena);
	htab_finish(&root->by_name);
	alloc_free(root->files);
	alloc_free(root->by_id);
	alloc_free(root->path);
	alloc_free(root->ceiling_folder);
	alloc_free(root->ceiling_name);
	alloc_free(root);
}

/* Root, its folders and all parents: nobody else may have a say. */
static enum err check_trust(struct root *root)
{
	static const char *const folders[] = { "", "/leases", "/presets" };
	enum err err = ERR_OK;

	if (!root->source.trust_check)
		return ERR_OK;
	for (size_t i = 0; err == ERR_OK && i < ARRAY_LEN(folders); i++) {
		char path[ROOT_PATH_MAX + 16];

		snprintf(path, sizeof(path), "%s%s", root->path, folders[i]);
		err = source_trust(path, root->reason);
		/* Presets are optional. */
		if (err == ERR_NOT_FOUND && i == 2)
			err = ERR_OK;
	}
	if (err == ERR_OK)
		err = source_trust(root->ceiling_folder, root->reason);
	if (err == ERR_OK)
		root->reason[0] = '\0';
	return err;
}

/* Read the ceiling again when it changed; its faults are its own. Fails only for memory. */
static enum err refresh_ceiling(struct root *root, bool uses_changed, bool *out_changed)
{
	const struct parse_as as = { .kind = POLICY_CEILING, .name = "", .report_allowed = root->report_allowed };
	struct root_ceiling *c = &root->ceiling;
	struct fault_place place = { .file = root->ceiling_name };
	char reason[SOURCE_REASON_MAX] = "it cannot be looked at";
	struct library_uses uses = { .count = 0 };
	struct source_stamp stamp = { 0 };
	uint8_t before[LAYOUT_ID_LEN];
	struct policy *policy;
	enum err err = source_stamp(root->ceiling_folder, root->ceiling_name, &stamp);

	*out_changed = false;
	if (err == ERR_OK && c->is_read && !uses_changed &&
	    (source_stamp_is_equal(&stamp, &c->stamp) || source_is_same(root->ceiling_folder, root->ceiling_name, TOKENS_FILE_MAX, &root->source, c->text, &c->stamp)))
		return ERR_OK;
	*out_changed = true;
	memcpy(before, c->segment.id, sizeof(before));
	ceiling_reset(c);
	c->stamp = stamp;
	if (err == ERR_OK)
		err = source_read(root->ceiling_folder, root->ceiling_name, TOKENS_FILE_MAX, &root->source, &c->arena, &c->text,
				  &c->stamp, reason);
	/* What could not be read may be readable next time without looking different. */
	c->is_read = err == ERR_OK || err == ERR_NOT_FOUND;
	if (err == ERR_OK) {
		err = parse_policy(&c->arena, root->ceiling_name, c->text, &as, &c->faults, &policy);
		if (err == ERR_OK)
			err = compile_ceiling_tree(policy, &root->library, &c->faults, &uses, &c->segment);
		for (size_t i = 0; i < uses.count && err != ERR_NO_MEMORY; i++)
			if (root_names_add(&c->uses, uses.presets[i]->name) != ERR_OK)
				err = ERR_NO_MEMORY;
		if (err == ERR_OK)
			c->policy = policy;
		c->is_sound = err == ERR_OK;
	} else if (err != ERR_NO_MEMORY) {
		fault_add(&c->faults, place, FAULT_ERROR, err == ERR_NOT_FOUND ? "ceiling_missing" : "unreadable", "%s", reason);
	}
	if (err == ERR_NO_MEMORY || c->faults.out_of_memory)
		return ERR_NO_MEMORY;
	err = c->is_sound ? ERR_OK : emit_ceiling(NULL, NULL, 0, &c->segment);
	root->has_changed = root->has_changed || memcmp(before, c->segment.id, sizeof(before)) != 0;
	return err;
}

/* Forget the presets whose files changed; their names go to `changed`. A read that failed is always tried again. */
static enum err refresh_presets(struct root *root, struct root_names *changed)
{
	struct preset *next;
	enum err err = ERR_OK;

	for (struct preset *p = root->library.presets; p != NULL && err == ERR_OK; p = next) {
		struct source_stamp stamp = { 0 };

		next = p->next;
		if (source_stamp(root->path, p->file, &stamp) == ERR_OK && source_stamp_is_equal(&stamp, &p->stamp) &&
		    (p->is_missing || stamp.inode != 0))
			continue;
		if (source_is_same(root->path, p->file, TOKENS_FILE_MAX, &root->source, p->text, &p->stamp))
			continue;
		err = root_names_add(changed, p->name);
		library_forget(&root->library, p);
	}
	return err;
}

static bool uses_any(const struct root_names *names, const struct root_names *changed)
{
	for (size_t i = 0; i < names->count; i++)
		for (size_t j = 0; j < changed->count; j++)
			if (strcmp(names->name[i], changed->name[j]) == 0)
				return true;
	return false;
}

/* The file of an entry, made when it is new; NULL when it is neither here nor there. */
static enum err file_for(struct root *root, const struct root_listed *entry, struct root_file **out_file)
{
	struct root_file *f = root_find_file(root, entry->name);
	enum err err = ERR_OK;

	if (f == NULL && entry->stamp.inode != 0) {
		err = root_file_create(entry->name, &f);
		if (err == ERR_OK)
			err = htab_insert(&root->by_name, &f->node, hash_bytes(&root->key, f->name, strlen(f->name)));
		if (err != ERR_OK) {
			root_file_destroy(f);
			return err;
		}
		root->has_moved = true;
	}
	*out_file = f;
	return err;
}

/* Go by the listing: keep, read again, add, remove. */
static enum err refresh_files(struct root *root, const struct root_listing *listing)
{
	struct root_file *f;
	enum err err = ERR_OK;

	for (size_t i = 0; i < root->file_count && listing->is_whole; i++)
		root->files[i]->is_listed = false;
	for (size_t i = 0; i < listing->count && err == ERR_OK; i++) {
		err = file_for(root, &listing->entries[i], &f);
		if (err != ERR_OK)
			return err;
		if (f == NULL)
			continue;
		f->is_listed = listing->entries[i].stamp.inode != 0;
		f->is_ahead = root->in_pass && !listing->is_whole;
		root->has_moved = root->has_moved || !f->is_listed;
		if (f->is_listed)
			err = root_file_read(root, f, &listing->entries[i].stamp);
	}
	for (size_t i = 0; i < root->file_count && listing->is_whole; i++)
		root->has_moved = root->has_moved || !root->files[i]->is_listed;
	return err;
}

/* Some file came, went or has another id. */
static enum err move_files(struct root *root)
{
	enum err err = root_place_files(root);

	if (err != ERR_OK)
		return err;
	root_find_duplicates(root);
	root->has_moved = false;
	return ERR_OK;
}

/* Make segments of every file whose text, presets, ceiling or rivals changed. */
static enum err link_files(struct root *root, bool ceiling_changed, const struct root_names *changed)
{
	enum err err = ERR_OK;

	for (size_t i = 0; err == ERR_OK && i < root->file_count; i++) {
		struct root_file *f = root->files[i];

		if (f->needs_link || ceiling_changed || uses_any(&f->uses, changed))
			err = root_file_link(root, f);
	}
	return err;
}

/* Of the files that were looked at: no other has changed. */
static enum err link_listed(struct root *root, const struct root_listing *listing)
{
	enum err err = ERR_OK;

	for (size_t i = 0; err == ERR_OK && i < listing->count; i++) {
		struct root_file *f = root_find_file(root, listing->entries[i].name);

		if (f == NULL || !f->needs_link)
			continue;
		err = root_file_link(root, f);
		if (err == ERR_OK)
			root_view_follow(root, f);
	}
	return err;
}

/* Everything after trust and listing. Only memory can fail it. */
static enum err refresh_compiled(struct root *root, const struct root_listing *listing)
{
	struct root_names changed = { .count = 0 };
	bool ceiling_changed = false, is_all;
	enum err err = listing->is_whole ? refresh_presets(root, &changed) : ERR_OK;

	if (err == ERR_OK && listing->is_whole)
		err = refresh_ceiling(root, uses_any(&root->ceiling.uses, &changed), &ceiling_changed);
	if (err == ERR_OK)
		err = refresh_files(root, listing);
	/* Rivals may be anywhere. */
	is_all = listing->is_whole || root->has_moved;
	root->is_any_other = root->is_any_other || root->has_moved;
	if (err == ERR_OK && root->has_moved)
		err = move_files(root);
	if (err == ERR_OK)
		err = is_all ? link_files(root, ceiling_changed, &changed) : link_listed(root, listing);
	root->is_any_other = root->is_any_other || (is_all && root->has_changed);
	if (err == ERR_OK)
		err = root_view_build(root, is_all);
	root_names_finish(&changed);
	return err;
}

/* Nothing could be confirmed. */
static enum err fail(struct root *root, enum err err)
{
	if (err == ERR_NO_MEMORY)
		snprintf(root->reason, sizeof(root->reason), "%s", err_text(err));
	return err;
}

/* Act on a listing. */
static enum err follow(struct root *root, const struct root_listing *listing, bool *out_changed)
{
	enum err err = refresh_compiled(root, listing);

	if (err != ERR_OK) {
		snprintf(root->reason, sizeof(root->reason), "%s", err_text(err));
		root_drop(root);
		return err;
	}
	root->reason[0] = '\0';
	*out_changed = root->has_changed;
	root->has_changed = false;
	return ERR_OK;
}

enum err root_pass_begin(struct root *root)
{
	enum err err = check_trust(root);

	root_pass_drop(root);
	if (err != ERR_OK)
		return fail(root, err);
	root->in_pass = true;
	root->is_overtaken = false;
	err = root_listing_begin(root, true, &root->pass);
	if (err != ERR_OK)
		root_pass_drop(root);
	return err;
}

enum err root_pass_go_on(struct root *root, size_t count, bool *out_is_listed)
{
	enum err err = root->in_pass ? root_list_more(root, &root->pass, count, out_is_listed) : ERR_INVALID;

	if (err != ERR_OK)
		root_pass_drop(root);
	return fail(root, err);
}

enum err root_pass_finish(struct root *root, bool *out_changed)
{
	enum err err = root->in_pass ? ERR_OK : ERR_INVALID;

	if (err == ERR_OK && root->is_overtaken)
		err = root_list_again(root, &root->pass);
	if (err == ERR_OK)
		err = follow(root, &root->pass, out_changed);
	else
		fail(root, err);
	root_pass_drop(root);
	return err;
}

void root_pass_drop(struct root *root)
{
	if (!root->in_pass)
		return;
	root->in_pass = false;
	root_listing_finish(&root->pass);
	for (size_t i = 0; i < root->file_count; i++)
		root->files[i]->is_ahead = false;
}

enum err root_refresh(struct root *root, bool *out_changed)
{
	bool is_listed;
	enum err err = root_pass_begin(root);

	if (err == ERR_OK)
		err = root_pass_go_on(root, SIZE_MAX, &is_listed);
	return err == ERR_OK ? root_pass_finish(root, out_changed) : err;
}

enum err root_refresh_some(struct root *root, const char *const *names, size_t count, bool *out_changed)
{
	struct root_listing listing;
	enum err err;

	*out_changed = false;
	if (count == 0)
		return ERR_OK;
	err = check_trust(root);
	if (err != ERR_OK)
		return fail(root, err);
	root->is_overtaken = true;
	err = root_listing_begin(root, false, &listing);
	if (err == ERR_OK)
		err = root_list_some(root, &listing, names, count);
	err = err == ERR_OK ? follow(root, &listing, out_changed) : fail(root, err);
	root_listing_finish(&listing);
	return err;
}

/* Where the ceiling is: an absolute path given by the operator, or beside leases/. */
static enum err place_ceiling(struct root *root, const char *path)
{
	const char *slash = path == NULL ? NULL : strrchr(path, '/');

	if (path != NULL && (path[0] != '/' || slash[1] == '\0'))
		return ERR_INVALID;
	root->ceiling_folder = path == NULL ? alloc_copy(root->path, strlen(root->path)) :
			       slash == path ? alloc_copy("/", 1) : alloc_copy(path, (size_t)(slash - path));
	root->ceiling_name = path == NULL ? alloc_copy("ceiling.policy", 14) : alloc_copy(slash + 1, strlen(slash + 1));
	return root->ceiling_folder == NULL || root->ceiling_name == NULL ? ERR_NO_MEMORY : ERR_OK;
}

static void tell_open_faults(const struct root *root, enum err err, struct fault_list *faults)
{
	if (faults == NULL)
		return;
	if (err != ERR_INVALID && err != ERR_OK)
		fault_add(faults, (struct fault_place){ .file = root->path }, FAULT_ERROR, "root_unusable", "%s", root->reason);
	for (const struct fault *f = root->ceiling.faults.first; f != NULL; f = f->next)
		fault_add(faults, f->place, f->severity, f->code, "%s", f->text);
}

enum err root_open(const char *path, const struct root_options *options, struct fault_list *faults, struct root **out_root)
{
	size_t len = strlen(path);
	struct root *root;
	bool changed;
	enum err err;

	while (len > 1 && path[len - 1] == '/')
		len--;
	if (path[0] != '/' || len > ROOT_PATH_MAX)
		return ERR_INVALID;
	root = alloc_zeroed(sizeof(*root));
	if (root == NULL)
		return ERR_NO_MEMORY;
	root->is_any_other = true;
	arena_init(&root->ceiling.arena, 0);
	fault_list_init(&root->ceiling.faults, &root->ceiling.arena);
	root->source.trust_check = options->trust_check;
	root->report_allowed = options->report_allowed;
	library_init(&root->library, read_preset, root, root->report_allowed);
	root->path = alloc_copy(path, len);
	htab_init(&root->by_name);
	err = root->path == NULL ? ERR_NO_MEMORY : place_ceiling(root, options->ceiling);
	if (err == ERR_OK)
		err = crypto_random(&root->key, sizeof(root->key));
	if (err == ERR_OK)
		err = root_refresh(root, &changed);
	if (err == ERR_OK && !root->ceiling.is_sound)
		err = ERR_INVALID;
	if (root->path != NULL)
		tell_open_faults(root, err, faults);
	if (err != ERR_OK) {
		root_close(root);
		return err;
	}
	*out_root = root;
	return ERR_OK;
}

const char *root_reason(const struct root *root)
{
	return root->reason;
}

bool root_ceiling_is_sound(const struct root *root)
{
	return root->ceiling.is_sound;
}

const struct emitted *root_ceiling(const struct root *root)
{
	return &root->ceiling.segment;
}

static void visit_list(const struct fault_list *list, root_fault_fn *visit, void *arg)
{
	for (const struct fault *f = list->first; f != NULL; f = f->next)
		visit(arg, f);
}

void root_visit_faults(const struct root *root, root_fault_fn *visit, void *arg)
{
	visit_list(&root->ceiling.faults, visit, arg);
	for (const struct preset *p = root->library.presets; p != NULL; p = p->next)
		visit_list(&p->faults, visit, arg);
	for (size_t i = 0; i < root->file_count; i++)
		visit_list(&root->files[i]->faults, visit, arg);
}

enum err root_emit(const struct root *root, uint64_t version, struct emitted *out_segment)
{
	const struct root_view *view = &root->view;
	struct emit_root_lease *leases = NULL;
	struct layout_id ceiling;
	enum err err;

	if (root->ceiling.segment.bytes == NULL)
		return ERR_NOT_FOUND;
	memcpy(ceiling.bytes, root->ceiling.segment.id, sizeof(ceiling.bytes));
	if (view->lease_count > 0) {
		leases = alloc_array(view->lease_count, sizeof(*leases));
		if (leases == NULL)
			return ERR_NO_MEMORY;
	}
	for (size_t i = 0; i < view->lease_count; i++) {
		leases[i].id = view->leases[i].id;
		memcpy(leases[i].segment.bytes, view->leases[i].segment->id, LAYOUT_ID_LEN);
	}
	err = emit_root(version, 0, &ceiling, root->report_allowed ? LAYOUT_ROOT_REPORT_ALLOWED : 0, leases, view->lease_count,
			out_segment);
	alloc_free(leases);
	return err;
}
