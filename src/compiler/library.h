/* Presets by name, each read, parsed and emitted once and shared by all policies that use it; `use` lines followed to their end. */
#ifndef EGRESS_COMPILER_LIBRARY_H
#define EGRESS_COMPILER_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"
#include "compiler/ast.h"
#include "compiler/emit.h"
#include "compiler/source.h"
#include "config/fault.h"

#define PRESET_NAME_MAX 64
#define LIBRARY_USES_MAX 64 /* presets that one policy may use, all together */

struct preset {
	struct preset *next;     /* owned by the library */
	char name[PRESET_NAME_MAX + 1];
	char file[PRESET_NAME_MAX + 16];           /* "presets/NAME.policy" */
	bool is_missing;         /* there is no such file */
	bool is_sound;           /* read without a fault */
	struct source_stamp stamp;
	struct text text;        /* as it was read */
	struct arena arena;      /* owns text, tree and faults */
	struct fault_list faults;
	const struct policy *policy; /* NULL unless is_sound */
	struct emitted segment;
};

/* Read a preset's text into `arena`; NOT_FOUND, or another error with a sentence. */
typedef enum err library_read_fn(void *arg, const struct preset *preset, struct arena *arena, struct text *out_text,
				 struct source_stamp *out_stamp, char out_reason[SOURCE_REASON_MAX]);

struct library {
	library_read_fn *read;
	void *arg;
	bool report_allowed;
	struct preset *presets; /* owned */
};

void library_init(struct library *l, library_read_fn *read, void *arg, bool report_allowed);
void library_finish(struct library *l);
/* The preset, read when it was not yet; a missing or faulty one too. */
enum err library_get(struct library *l, const char *name, struct preset **out_preset) ATTR_MUST_CHECK;
/* Forget one, so that the next library_get reads it again. */
void library_forget(struct library *l, struct preset *preset);

/* The presets of a policy, each once, in the order first named, those that they use behind them. */
struct library_uses {
	struct preset *presets[LIBRARY_USES_MAX]; /* borrowed from the library */
	size_t count;
};
/*
 * Follow `uses` (those without a name are skipped). Missing and faulty presets, loops and too many are faults at the use line. The presets
 * met are listed even then, for what depends on them.
 */
enum err library_resolve(struct library *l, const struct policy_use *uses, struct fault_list *faults,
			 struct library_uses *uses_so_far) ATTR_MUST_CHECK;

#endif
