/* Cuts text into lines and words; see tokens.h. Knows blanks, quotes, comments and UTF-8, and no vocabulary. */
#include "config/tokens.h"

#include <string.h>

struct tokens_state {
	struct arena *arena;
	struct fault_list *faults;
	const char *file;
	uint32_t line;
};

static void tokens_fault(struct tokens_state *s, size_t at, const char *code, const char *sentence)
{
	struct fault_place place = { .file = s->file, .line = s->line, .column = (uint32_t)at + 1 };

	fault_add(s->faults, place, FAULT_ERROR, code, "%s", sentence);
}

/* Length of the well-formed UTF-8 sequence at `at` (RFC 3629: no overlong forms, no surrogates); 0 if there is none. */
static size_t tokens_utf8(const uint8_t *at, size_t left)
{
	size_t len = at[0] < 0x80 ? 1 : (at[0] >= 0xc2 && at[0] < 0xe0) ? 2 :
		     (at[0] >= 0xe0 && at[0] < 0xf0) ? 3 : (at[0] >= 0xf0 && at[0] < 0xf5) ? 4 : 0;

	if (len == 0 || len > left)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
	    (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
		return 0;
	return len;
}

/* Every byte must be printable, a blank, or part of good UTF-8; one fault a line is enough. */
static bool tokens_line_is_clean(struct tokens_state *s, struct text line)
{
	for (size_t i = 0; i < line.len;) {
		uint8_t c = (uint8_t)line.at[i];
		size_t len = tokens_utf8((const uint8_t *)line.at + i, line.len - i);

		if (len == 0) {
			tokens_fault(s, i, "bad_utf8", "these bytes are not UTF-8; save the file as UTF-8");
			return false;
		}
		if ((c < 0x20 && c != '\t') || c == 0x7f || (c == 0xc2 && (uint8_t)line.at[i + 1] < 0xa0)) {
			tokens_fault(s, i, "control_character", "a control character; remove it");
			return false;
		}
		i += len;
	}
	return true;
}

static bool tokens_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Read a quoted word that starts at *at; false with a fault. `room` holds the line's length. */
static bool tokens_quoted(struct tokens_state *s, struct text line, size_t *at, char *room, size_t *out_len)
{
	size_t i = *at + 1, len = 0;

	for (; i < line.len && line.at[i] != '"'; i++) {
		if (line.at[i] == '\\') {
			if (i + 1 >= line.len || (line.at[i + 1] != '"' && line.at[i + 1] != '\\')) {
				tokens_fault(s, i, "bad_escape", "a backslash inside quotes must be followed by a quote or a backslash");
				return false;
			}
			i++;
		}
		room[len++] = line.at[i];
	}
	if (i >= line.len) {
		tokens_fault(s, *at, "quote_open", "this quote is not closed on its line");
		return false;
	}
	i++;
	if (i < line.len && !tokens_is_blank(line.at[i])) {
		tokens_fault(s, i, "quote_adjacent", "a closing quote must be followed by a blank");
		return false;
	}
	*at = i;
	*out_len = len;
	return true;
}

/* Read a bare word that starts at *at; false with a fault. */
static bool tokens_bare(struct tokens_state *s, struct text line, size_t *at)
{
	size_t i = *at;

	for (; i < line.len && !tokens_is_blank(line.at[i]); i++) {
		if (line.at[i] == '#') {
			tokens_fault(s, i, "hash_in_word", "# inside a word: put a blank before a comment, or the word in quotes");
			return false;
		}
		if (line.at[i] == '"') {
			tokens_fault(s, i, "quote_in_word", "a quote may only begin a word; put a blank before it");
			return false;
		}
	}
	*at = i;
	return true;
}

/* The words of one clean line. *out_count 0 for a comment or a faulty line. False without memory. */
static bool tokens_words(struct tokens_state *s, struct text line, struct token *words, size_t *out_count)
{
	char room[TOKENS_LINE_MAX];
	size_t count = 0, at = 0;

	*out_count = 0;
	for (;;) {
		size_t start, len;
		bool quoted;
		const char *copy;

		while (at < line.len && tokens_is_blank(line.at[at]))
			at++;
		if (at >= line.len || line.at[at] == '#')
			break;
		if (count == TOKENS_WORDS_MAX) {
			tokens_fault(s, at, "line_too_long", "too many words on one line; use several lines");
			return true;
		}
		start = at;
		quoted = line.at[at] == '"';
		if (quoted ? !tokens_quoted(s, line, &at, room, &len) : !tokens_bare(s, line, &at))
			return true;
		copy = quoted ? arena_text(s->arena, room, len) : arena_text(s->arena, line.at + start, at - start);
		if (copy == NULL)
			return false;
		words[count++] = (struct token){
			.text = { copy, quoted ? len : at - start },
			.column = (uint32_t)start + 1,
			.quoted = quoted,
		};
	}
	*out_count = count;
	return true;
}

/* The next line of `rest` without its end; moves on. */
static struct text tokens_next_line(struct text *rest)
{
	const char *end = memchr(rest->at, '\n', rest->len);
	struct text line = { rest->at, end == NULL ? rest->len : (size_t)(end - rest->at) };
	size_t taken = line.len + (end != NULL);

	rest->at += taken;
	rest->len -= taken;
	if (end != NULL && line.len > 0 && line.at[line.len - 1] == '\r')
		line.len--;
	return line;
}

/* How many lines could hold words. */
static size_t tokens_count_lines(struct text rest)
{
	size_t count = 0;

	while (rest.len > 0) {
		struct text line = tokens_next_line(&rest);
		size_t at = 0;

		while (at < line.len && tokens_is_blank(line.at[at]))
			at++;
		if (at < line.len && line.at[at] != '#')
			count++;
	}
	return count;
}

static enum err tokens_store(struct tokens_state *s, const struct token *words, size_t count,
			     struct token_line *out_line)
{
	struct token *stored = arena_take_array(s->arena, count, sizeof(*stored));

	if (stored == NULL)
		return ERR_NO_MEMORY;
	memcpy(stored, words, count * sizeof(*stored));
	*out_line = (struct token_line){ .line = s->line, .token_count = (uint32_t)count, .tokens = stored };
	return ERR_OK;
}

enum err tokens_read(struct arena *arena, const char *file, struct text text, struct fault_list *faults,
		     struct tokens *out_tokens)
{
	struct tokens_state s = { .arena = arena, .faults = faults, .file = file, .line = 1 };
	struct token words[TOKENS_WORDS_MAX];
	struct token_line *lines = NULL;
	size_t line_max, line_count = 0;

	if (text.len > TOKENS_FILE_MAX) {
		tokens_fault(&s, 0, "file_too_long", "the file is longer than 1 MiB");
		text.len = 0;
	}
	if (text.len >= 3 && memcmp(text.at, "\xef\xbb\xbf", 3) == 0) {
		tokens_fault(&s, 0, "byte_order_mark", "the file begins with a byte order mark; save it without one");
		text.at += 3;
		text.len -= 3;
	}
	line_max = tokens_count_lines(text);
	if (line_max > 0) {
		lines = arena_take_array(arena, line_max, sizeof(*lines));
		if (lines == NULL)
			return ERR_NO_MEMORY;
	}
	for (; text.len > 0; s.line++) {
		struct text line = tokens_next_line(&text);
		size_t count;

		if (line.len > TOKENS_LINE_MAX) {
			tokens_fault(&s, TOKENS_LINE_MAX, "line_too_long", "the line is longer than 16384 bytes");
			continue;
		}
		if (!tokens_line_is_clean(&s, line))
			continue;
		if (!tokens_words(&s, line, words, &count))
			return ERR_NO_MEMORY;
		if (count > 0 && tokens_store(&s, words, count, &lines[line_count++]) != ERR_OK)
			return ERR_NO_MEMORY;
	}
	*out_tokens = (struct tokens){ .lines = lines, .line_count = line_count };
	return ERR_OK;
}
