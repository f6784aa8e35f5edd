/* See ceiling.h. Promises that nothing of a file that others could write is used, and that a change of any file that was asked for is seen. */
#include "source/ceiling.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/source.h"

#define FILE_MAX (1u << 20)
#define PRESETS_MAX 64
#define NAME_MAX_LEN 96

/* One file that was asked for; text.at NULL: it could not be had. */
struct known_file {
	char name[NAME_MAX_LEN]; /* below the folder */
	struct source_stamp stamp;
	struct text text;        /* in the arena */
};

struct ceiling {
	char *folder;            /* owned */
	char *file;              /* owned: its name in there */
	bool report_allowed, is_sound;
	struct arena arena;      /* owns texts and faults */
	struct fault_list faults;
	struct known_file files[PRESETS_MAX + 1]; /* the ceiling first */
	size_t file_count;
	struct emitted segment;
	struct compile_bench *bench; /* owned; NULL: not asked for yet */
};

static struct known_file *read_file(struct ceiling *c, const char *name)
{
	const struct source_options options = { .trust_check = true };
	struct known_file *f;
	char reason[SOURCE_REASON_MAX];

	for (size_t i = 0; i < c->file_count; i++)
		if (strcmp(c->files[i].name, name) == 0)
			return &c->files[i];
	if (c->file_count == ARRAY_LEN(c->files))
		return NULL;
	f = &c->files[c->file_count++];
	*f = (struct known_file){ .text = { NULL, 0 } };
	snprintf(f->name, sizeof(f->name), "%s", name);
	if (source_read(c->folder, name, FILE_MAX, &options, &c->arena, &f->text, &f->stamp, reason) != ERR_OK) {
		f->text = (struct text){ NULL, 0 };
		fault_add(&c->faults, (struct fault_place){ .file = f->name }, FAULT_ERROR, "unreadable", "%s", reason);
		if (source_stamp(c->folder, name, &f->stamp) != ERR_OK)
			f->stamp = (struct source_stamp){ 0 };
	}
	return f;
}

static enum err preset_of(void *arg, const char *name, struct text *out_text)
{
	struct ceiling *c = arg;
	char path[NAME_MAX_LEN];
	struct known_file *f;

	if (!source_preset_name_is_valid(text_of(name)))
		return ERR_NOT_FOUND;
	snprintf(path, sizeof(path), "presets/%s.policy", name);
	f = read_file(c, path);
	if (f == NULL || f->text.at == NULL)
		return ERR_NOT_FOUND;
	*out_text = f->text;
	return ERR_OK;
}

static struct compile_context context_of(struct ceiling *c)
{
	return (struct compile_context){ .preset = preset_of,
					 .arg = c,
					 .ceiling = c->is_sound ? c->files[0].text : (struct text){ "", 0 },
					 .report_allowed = c->report_allowed };
}

struct compile_bench *ceiling_bench(struct ceiling *c)
{
	const struct compile_context context = context_of(c);

	if (c->bench == NULL && compile_bench_create(&context, &c->bench) != ERR_OK)
		c->bench = NULL;
	return c->bench;
}

bool ceiling_is_report_allowed(const struct ceiling *c)
{
	return c->report_allowed;
}

static void forget(struct ceiling *c)
{
	compile_bench_destroy(c->bench);
	c->bench = NULL;
	emitted_finish(&c->segment);
	c->segment = (struct emitted){ .bytes = NULL };
	arena_finish(&c->arena);
	arena_init(&c->arena, 0);
	fault_list_init(&c->faults, &c->arena);
	c->file_count = 0;
	c->is_sound = false;
}

static void load(struct ceiling *c)
{
	struct compile_context context;
	const struct known_file *f;

	forget(c);
	f = read_file(c, c->file);
	if (f != NULL && f->text.at != NULL) {
		context = context_of(c);
		c->is_sound = compile_ceiling_text(c->file, f->text, &context, &c->faults, &c->segment) == ERR_OK;
	}
	/* Without memory for this too there is no segment, and nothing can be offered. */
	if (!c->is_sound && emit_ceiling(NULL, NULL, 0, &c->segment) != ERR_OK)
		c->segment = (struct emitted){ .bytes = NULL };
}

enum err ceiling_open(const char *path, bool report_allowed, struct fault_list *faults, struct ceiling **out_ceiling)
{
	const char *slash = strrchr(path, '/');
	struct ceiling *c = alloc_zeroed(sizeof(*c));
	size_t folder_len = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);

	if (c == NULL)
		return ERR_NO_MEMORY;
	arena_init(&c->arena, 0);
	c->report_allowed = report_allowed;
	c->folder = alloc_copy(slash == NULL ? "." : path, folder_len);
	c->file = alloc_copy(slash == NULL ? path : slash + 1, strlen(slash == NULL ? path : slash + 1));
	if (c->folder == NULL || c->file == NULL) {
		ceiling_close(c);
		return ERR_NO_MEMORY;
	}
	load(c);
	if (!c->is_sound) {
		for (const struct fault *f = c->faults.first; f != NULL; f = f->next)
			fault_add(faults, f->place, f->severity, f->code, "%s", f->text);
		ceiling_close(c);
		return ERR_INVALID;
	}
	*out_ceiling = c;
	return ERR_OK;
}

void ceiling_close(struct ceiling *c)
{
	if (c == NULL)
		return;
	compile_bench_destroy(c->bench);
	emitted_finish(&c->segment);
	arena_finish(&c->arena);
	alloc_free(c->folder);
	alloc_free(c->file);
	alloc_free(c);
}

bool ceiling_refresh(struct ceiling *c)
{
	const struct source_options options = { .trust_check = true };

	for (size_t i = 0; i < c->file_count; i++) {
		struct known_file *f = &c->files[i];
		struct source_stamp now;

		if (source_stamp(c->folder, f->name, &now) != ERR_OK)
			now = (struct source_stamp){ 0 };
		if (!source_stamp_is_equal(&now, &f->stamp) &&
		    !source_is_same(c->folder, f->name, FILE_MAX, &options, f->text, &f->stamp)) {
			load(c);
			return true;
		}
	}
	return false;
}

bool ceiling_is_sound(const struct ceiling *c)
{
	return c->is_sound;
}

const struct emitted *ceiling_segment(const struct ceiling *c)
{
	return &c->segment;
}

const struct fault_list *ceiling_faults(const struct ceiling *c)
{
	return &c->faults;
}
