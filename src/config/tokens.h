/*
 * Text to lines of words with positions; shared by configuration and `.policy` files. Knows blanks, quotes, comments and UTF-8, and no
 * vocabulary. Hostile input: fuzzed.
 */
#ifndef EGRESS_CONFIG_TOKENS_H
#define EGRESS_CONFIG_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "config/fault.h"

#define TOKENS_FILE_MAX (1u << 20) /* bytes */
#define TOKENS_LINE_MAX 16384       /* bytes */
#define TOKENS_WORDS_MAX 256       /* of one line */

struct token {
	struct text text; /* in the arena; quotes and escapes taken away */
	uint32_t column;  /* 1-based, in bytes */
	bool quoted;
};

struct token_line {
	uint32_t line; /* 1-based */
	uint32_t token_count; /* never 0 */
	const struct token *tokens; /* in the arena */
};

struct tokens {
	const struct token_line *lines; /* in the arena; empty and faulty lines are left out */
	size_t line_count;
};

/*
 * Cut `text` into lines and words. A word ends at a blank; "…" may hold blanks and # (escapes: \" and \\); # where a word could begin
 * starts a comment. Faults (bad UTF-8, control characters, an open quote, # inside a word, lines too long) go to `faults` with `file`.
 * Fails only for memory.
 */
enum err tokens_read(struct arena *arena, const char *file, struct text text, struct fault_list *faults,
		     struct tokens *out_tokens) ATTR_MUST_CHECK;

#endif
