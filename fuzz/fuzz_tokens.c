/* Configuration and policy text: any bytes give lines whose words lie inside them, and what parses as configuration prints back to itself. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "config/load.h"
#include "config/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tokens(struct text text)
{
	struct arena arena;
	struct fault_list faults;
	struct tokens tokens;
	uint32_t before = 0;

	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	if (tokens_read(&arena, "fuzz", text, &faults, &tokens) != ERR_OK)
		__builtin_trap();
	for (size_t i = 0; i < tokens.line_count; i++) {
		const struct token_line *line = &tokens.lines[i];
		uint32_t column = 0;

		if (line->line <= before || line->token_count == 0)
			__builtin_trap();
		before = line->line;
		for (uint32_t j = 0; j < line->token_count; j++) {
			const struct token *t = &line->tokens[j];

			if (t->column <= column || t->text.at[t->text.len] != '\0' || (!t->quoted && t->text.len == 0))
				__builtin_trap();
			if (memchr(t->text.at, '\0', t->text.len) != NULL || memchr(t->text.at, '\n', t->text.len) != NULL)
				__builtin_trap();
			column = t->column;
		}
	}
	for (const struct fault *f = faults.first; f != NULL; f = f->next)
		if (f->place.line == 0 || f->text[0] == '\0')
			__builtin_trap();
	arena_finish(&arena);
}

/* Print, read back, print again: both prints must be equal. */
static void check_config(struct text text)
{
	struct arena arena;
	struct fault_list faults;
	struct config *first = NULL, *second = NULL;
	char *printed = NULL, *again = NULL;
	enum err err;

	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	err = config_parse("fuzz", text, CONFIG_FOR_DAEMON, &faults, &first);
	if ((err == ERR_OK) != (faults.error_count == 0))
		__builtin_trap();
	if (err == ERR_OK) {
		if (config_print(first, true, &printed) != ERR_OK ||
		    config_parse("fuzz", text_of(printed), CONFIG_FOR_DAEMON, &faults, &second) != ERR_OK ||
		    config_print(second, true, &again) != ERR_OK || strcmp(printed, again) != 0)
			__builtin_trap();
	}
	alloc_free(printed);
	alloc_free(again);
	config_unref(first);
	config_unref(second);
	arena_finish(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text text = { (const char *)data, size };

	check_tokens(text);
	check_config(text);
	return 0;
}
