/* The parts of a root: files of leases/, the ceiling, the view that callers see. Shared by root.c, root_file.c, root_order.c and root_view.c. */
#ifndef EGRESS_COMPILER_ROOT_INTERNAL_H
#define EGRESS_COMPILER_ROOT_INTERNAL_H

#include "base/hash.h"
#include "base/htab.h"
#include "compiler/compile_internal.h"
#include "compiler/root.h"
#include "config/tokens.h"

#define ROOT_PATH_MAX 3800
#define ROOT_FILE_NAME_MAX 255
#define ROOT_OTHERS_MAX 64

/* Names of presets: those a file depends on, or those that changed. */
struct root_names {
	char (*name)[PRESET_NAME_MAX + 1]; /* owned; NULL while empty */
	size_t count;
};
void root_names_finish(struct root_names *names);
enum err root_names_add(struct root_names *names, const char *name) ATTR_MUST_CHECK;
bool root_names_hold(const struct root_names *names, const char *name);

/* One file of leases/. */
struct root_file {
	struct htab_node node; /* in the root's by_name */
	bool is_listed;        /* in the refresh under way */
	bool is_ahead;         /* looked at since the pass began */
	bool is_new;           /* not in the root's arrays yet */
	bool is_placed;        /* false: new, or its id is another than by_id has it under */
	struct source_stamp stamp;
	bool is_read;          /* false: try again whatever the stamp says */
	char *text;            /* owned; NULL when it could not be read. A tree is many times as large, and so is made again for each link */
	size_t text_len;
	char *unreadable;      /* owned: why there is no text */
	struct arena arena;    /* faults */
	struct fault_list faults;
	char id[LEASE_DOC_ID_MAX + 1]; /* of this text, or the last one that this file had; "" if never */
	const char *rival;     /* borrowed: name of another file with the same id; NULL if none */
	bool needs_link;
	struct root_names uses;
	bool is_quarantined;
	struct emitted segment;
	char name[]; /* "leases/build7.policy" */
};
enum err root_file_create(const char *name, struct root_file **out_file) ATTR_MUST_CHECK;
/* Accepts NULL. */
void root_file_destroy(struct root_file *f);
/* Read and parse when the stamp differs; another id takes it from its place. Fails only for memory. */
enum err root_file_read(struct root *root, struct root_file *f, const struct source_stamp *stamp) ATTR_MUST_CHECK;
/* Make its segment. Fails only for memory. */
enum err root_file_link(struct root *root, struct root_file *f) ATTR_MUST_CHECK;
/* Note which files claim the same id. */
void root_find_duplicates(struct root *root);
/*
 * Put files that are listed now into `files` and `by_id`, and destroy the others: some came, went or got another id. Fails only for memory.
 */
enum err root_place_files(struct root *root) ATTR_MUST_CHECK;

struct root_ceiling {
	bool is_read, is_sound;
	struct source_stamp stamp;
	struct text text;       /* while it is read; in the arena */
	struct arena arena;
	struct fault_list faults;
	const struct policy *policy; /* NULL unless sound */
	struct root_names uses; /* presets that it depends on, however deep */
	struct emitted segment;
};

/* What stands in leases/, in no order: all of it, or what some names are about. Of two about one name the last one counts. */
struct root_listing {
	bool is_whole;
	void *folder;       /* owned: a DIR; NULL: none is open */
	struct arena arena; /* names */
	struct root_listed {
		const char *name;          /* "leases/build7.policy" */
		struct source_stamp stamp; /* zeros: it is not there */
	} *entries; /* owned */
	size_t count, capacity;
};
/* Open the folder. Finish it also on failure. Errors leave a sentence in root->reason, as all that follow. */
enum err root_listing_begin(struct root *root, bool is_whole, struct root_listing *out_listing) ATTR_MUST_CHECK;
void root_listing_finish(struct root_listing *listing);
/* Look at the next `count` files. */
enum err root_list_more(struct root *root, struct root_listing *listing, size_t count, bool *out_is_done) ATTR_MUST_CHECK;
/* Look at these. */
enum err root_list_some(struct root *root, struct root_listing *listing, const char *const *names, size_t count) ATTR_MUST_CHECK;
/* Look again at what is ahead of the listing, and at what it has and the root has not. */
enum err root_list_again(struct root *root, struct root_listing *listing) ATTR_MUST_CHECK;
/* NULL: there is none. */
struct root_file *root_find_file(const struct root *root, const char *name);

/* What callers see: rebuilt after each refresh, borrowing from the files and presets. */
struct root_view {
	struct root_lease *leases; /* owned, sorted by id */
	size_t lease_count;
	const struct emitted **rulesets; /* owned array */
	size_t ruleset_count;
};
/* Without `is_all` its leases are left as they are. */
enum err root_view_build(struct root *root, bool is_all) ATTR_MUST_CHECK;
/* A file that stays where it was has another segment. */
void root_view_follow(struct root *root, const struct root_file *f);
void root_view_finish(struct root_view *view);

struct root {
	char *path;            /* owned */
	char *ceiling_folder, *ceiling_name; /* owned */
	struct source_options source;
	bool report_allowed;
	struct library library;
	struct root_ceiling ceiling;
	struct hash_key key;
	struct htab by_name;      /* of struct root_file, owned */
	struct root_file **files; /* owned array of the same, sorted by name */
	struct root_file **by_id; /* likewise, by id and name */
	size_t file_count;        /* of both */
	bool has_moved;           /* that is not so by now: see root_place_files */
	bool has_changed;         /* some segment is new or gone since the last refresh */
	struct root_view view;
	bool is_any_other;        /* since root_note_taken; else these leases of the view alone */
	size_t others[ROOT_OTHERS_MAX];
	size_t other_count;
	struct root_listing pass; /* under way while in_pass */
	bool in_pass;
	bool is_overtaken;        /* something was looked at since the pass began */
	char reason[SOURCE_REASON_MAX];
};

#endif
