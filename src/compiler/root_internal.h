/* The parts of a root: files of leases/, the ceiling, the view that callers see. Shared by root.c, root_file.c and root_view.c. */
#ifndef EGRESS_COMPILER_ROOT_INTERNAL_H
#define EGRESS_COMPILER_ROOT_INTERNAL_H

#include "compiler/compile_internal.h"
#include "compiler/root.h"
#include "config/tokens.h"

#define ROOT_PATH_MAX 3800
#define ROOT_FILE_NAME_MAX 255

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
	char name[ROOT_FILE_NAME_MAX + 8]; /* "leases/build7.policy" */
	struct source_stamp stamp;
	bool is_read;          /* false: try again whatever the stamp says */
	struct arena arena;    /* text and tree */
	struct arena link_arena; /* faults */
	struct fault_list parse_faults; /* in `arena` */
	struct fault_list faults;       /* in `link_arena`: those of the parse, and of what came after */
	struct policy *policy; /* NULL when there is none at all */
	bool is_parsed;        /* without a fault */
	char id[LEASE_DOC_ID_MAX + 1]; /* of this text, or the last one that this file had; "" if never */
	const char *rival;     /* borrowed: name of another file with the same id; NULL if none */
	bool needs_link;
	struct root_names uses;
	bool is_quarantined;
	struct emitted segment;
};
enum err root_file_create(const char *name, struct root_file **out_file) ATTR_MUST_CHECK;
/* Accepts NULL. */
void root_file_destroy(struct root_file *f);
/* Read and parse when the stamp differs. Fails only for memory. */
enum err root_file_read(struct root *root, struct root_file *f, const struct source_stamp *stamp) ATTR_MUST_CHECK;
/* Make its segment. Fails only for memory. */
enum err root_file_link(struct root *root, struct root_file *f) ATTR_MUST_CHECK;
/* Note which files claim the same id. */
enum err root_find_duplicates(struct root *root) ATTR_MUST_CHECK;

struct root_ceiling {
	bool is_read, is_sound;
	struct source_stamp stamp;
	struct arena arena;
	struct fault_list faults;
	const struct policy *policy; /* NULL unless sound */
	struct root_names uses; /* presets that it depends on, however deep */
	struct emitted segment;
};

/* What stands in leases/, sorted by name. */
struct root_listing {
	struct root_listed {
		char name[ROOT_FILE_NAME_MAX + 8];
		struct source_stamp stamp;
	} *entries; /* owned */
	size_t count, capacity;
};
/* Errors leave a sentence in root->reason. */
enum err root_list(struct root *root, struct root_listing *out_listing) ATTR_MUST_CHECK;
void root_listing_finish(struct root_listing *listing);

/* What callers see: rebuilt after each refresh, borrowing from the files and presets. */
struct root_view {
	struct root_lease *leases; /* owned, sorted by id */
	size_t lease_count;
	const struct emitted **rulesets; /* owned array */
	size_t ruleset_count;
	const struct emitted **segments; /* owned array, sorted by segment id */
	size_t segment_count;
	uint8_t digest[LAYOUT_ID_LEN]; /* over all of it */
};
enum err root_view_build(struct root *root) ATTR_MUST_CHECK;
void root_view_finish(struct root_view *view);

struct root {
	char *path;            /* owned */
	char *ceiling_folder, *ceiling_name; /* owned */
	struct source_options source;
	bool report_allowed;
	struct library library;
	struct root_ceiling ceiling;
	struct root_file **files; /* owned, sorted by name */
	size_t file_count;
	struct root_view view;
	char reason[SOURCE_REASON_MAX];
};

#endif
