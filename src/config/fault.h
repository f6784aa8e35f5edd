/*
 * What is wrong in a text that a person or a control plane wrote: where, a stable code, what was expected and what to do. Collected in
 * an arena, all of a file, not the first. Shared by configuration, policy files and documents.
 */
#ifndef EGRESS_CONFIG_FAULT_H
#define EGRESS_CONFIG_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/text.h"

#define FAULT_KEEP_MAX 256 /* faults kept with their text; more are only counted */
#define FAULT_TEXT_MAX 512

enum fault_severity { FAULT_ERROR, FAULT_WARNING };

/* Where it is: a line and column (1-based, 0 unknown) or a JSON pointer. */
struct fault_place {
	const char *file;    /* borrowed for the call of fault_add, which keeps a copy; NULL when there is none */
	uint32_t line, column;
	const char *pointer; /* borrowed likewise; NULL for text files */
};

struct fault {
	struct fault *next; /* borrowed: in the list's arena, like all else here; in the order found */
	struct fault_place place;
	enum fault_severity severity;
	const char *code;   /* static text: a stable word such as "unknown_key" */
	const char *text;   /* in the arena: one sentence, no final dot */
};

struct fault_list {
	struct arena *arena;   /* borrowed: holds the texts */
	struct fault *first, *last;
	size_t error_count, warning_count; /* all, also those not kept */
	bool out_of_memory;    /* a fault could not be kept; it is counted as an error */
};

/* Start an empty list whose texts live in `arena`. */
void fault_list_init(struct fault_list *list, struct arena *arena);
/* Add one. Text from outside must have gone through text_escape. */
void fault_add(struct fault_list *list, struct fault_place place, enum fault_severity severity,
	       const char *code, const char *format, ...) ATTR_PRINTF(5, 6);
/* Note that memory ran out: an error without a place. */
void fault_no_memory(struct fault_list *list);
static inline bool fault_list_is_clean(const struct fault_list *list)
{
	return list->error_count == 0;
}
/* Print "file:line:column: error: text [code]" (or "file: /pointer: …") without a line end; returns the length kept in `cap`. */
size_t fault_print(const struct fault *fault, char *out_text, size_t cap);
/* The word that `word` was probably meant to be: the nearest of `count` words within two edits; NULL if none is near. */
const char *fault_nearest(struct text word, const char *const *words, size_t count);

#endif
