/* Keeps and prints what is wrong in a text; see fault.h. Knows no grammar. */
#include "config/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NEAREST_WORD_MAX 64
#define NEAREST_EDITS_MAX 2

void fault_list_init(struct fault_list *list, struct arena *arena)
{
	*list = (struct fault_list){ .arena = arena };
}

void fault_no_memory(struct fault_list *list)
{
	list->out_of_memory = true;
	list->error_count++;
}

static size_t fault_kept(const struct fault_list *list)
{
	size_t kept = 0;

	for (const struct fault *f = list->first; f != NULL; f = f->next)
		kept++;
	return kept;
}

/* Copy what the place points at, so that a list outlives the texts it is about. */
static void fault_keep_place(struct fault_list *list, struct fault *fault)
{
	const char *file = fault->place.file, *pointer = fault->place.pointer;

	if (file != NULL && list->last != NULL && list->last->place.file != NULL && strcmp(file, list->last->place.file) == 0)
		fault->place.file = list->last->place.file;
	else if (file != NULL)
		fault->place.file = arena_text(list->arena, file, strlen(file));
	if (pointer != NULL)
		fault->place.pointer = arena_text(list->arena, pointer, strlen(pointer));
	if ((file != NULL && fault->place.file == NULL) || (pointer != NULL && fault->place.pointer == NULL))
		list->out_of_memory = true;
}

static void fault_count(struct fault_list *list, enum fault_severity severity)
{
	if (severity == FAULT_ERROR)
		list->error_count++;
	else
		list->warning_count++;
}

void fault_add(struct fault_list *list, struct fault_place place, enum fault_severity severity,
	       const char *code, const char *format, ...)
{
	char text[FAULT_TEXT_MAX];
	struct fault *fault;
	va_list args;

	fault_count(list, severity);
	if (fault_kept(list) >= FAULT_KEEP_MAX)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fault = arena_take(list->arena, sizeof(*fault));
	if (fault == NULL) {
		list->out_of_memory = true;
		return;
	}
	*fault = (struct fault){ .place = place, .severity = severity, .code = code };
	fault_keep_place(list, fault);
	fault->text = arena_text(list->arena, text, strlen(text));
	if (fault->text == NULL) {
		fault->text = "out of memory while this was told";
		list->out_of_memory = true;
	}
	if (list->last == NULL)
		list->first = fault;
	else
		list->last->next = fault;
	list->last = fault;
}

size_t fault_print(const struct fault *fault, char *out_text, size_t cap)
{
	const char *severity = fault->severity == FAULT_ERROR ? "error" : "warning";
	const char *file = fault->place.file == NULL ? "-" : fault->place.file;
	int len;

	if (fault->place.pointer != NULL)
		len = snprintf(out_text, cap, "%s: %s: %s: %s [%s]", file,
			       fault->place.pointer[0] == '\0' ? "/" : fault->place.pointer,
			       severity, fault->text, fault->code);
	else if (fault->place.line != 0)
		len = snprintf(out_text, cap, "%s:%u:%u: %s: %s [%s]", file, fault->place.line,
			       fault->place.column, severity, fault->text, fault->code);
	else
		len = snprintf(out_text, cap, "%s: %s: %s [%s]", file, severity, fault->text,
			       fault->code);
	if (len < 0)
		return 0;
	return (size_t)len < cap ? (size_t)len : (cap == 0 ? 0 : cap - 1);
}

static unsigned nearest_min(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap neighbours) between a and b, case ignored; both at most NEAREST_WORD_MAX. */
static unsigned nearest_distance(struct text a, struct text b)
{
	unsigned row[3][NEAREST_WORD_MAX + 1];
	unsigned *before = row[0], *above = row[1], *now = row[2];

	for (size_t j = 0; j <= b.len; j++)
		above[j] = (unsigned)j;
	memcpy(before, above, sizeof(row[0]));
	for (size_t i = 1; i <= a.len; i++) {
		now[0] = (unsigned)i;
		for (size_t j = 1; j <= b.len; j++) {
			char ca = text_lower(a.at[i - 1]), cb = text_lower(b.at[j - 1]);

			now[j] = nearest_min(above[j] + 1, now[j - 1] + 1);
			now[j] = nearest_min(now[j], above[j - 1] + (ca != cb));
			if (i > 1 && j > 1 && ca == text_lower(b.at[j - 2]) &&
			    cb == text_lower(a.at[i - 2]))
				now[j] = nearest_min(now[j], before[j - 2] + 1);
		}
		unsigned *spare = before;

		before = above;
		above = now;
		now = spare;
	}
	return above[b.len];
}

const char *fault_nearest(struct text word, const char *const *words, size_t count)
{
	const char *best = NULL;
	unsigned best_edits = NEAREST_EDITS_MAX + 1;

	if (word.len < 2 || word.len > NEAREST_WORD_MAX)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		struct text known = text_of(words[i]);
		unsigned edits;

		if (known.len > NEAREST_WORD_MAX)
			continue;
		edits = nearest_distance(word, known);
		if (edits < best_edits && edits * 2 < word.len + 1) {
			best = words[i];
			best_edits = edits;
		}
	}
	return best;
}
