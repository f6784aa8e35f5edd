#include <criterion/criterion.h>
#include <string.h>

#include "base/alloc.h"
#include "config/tokens.h"

struct fixture {
	struct arena arena;
	struct fault_list faults;
	struct tokens tokens;
};

static void read_text(struct fixture *f, struct text text)
{
	arena_init(&f->arena, 0);
	fault_list_init(&f->faults, &f->arena);
	cr_assert_eq(tokens_read(&f->arena, "t", text, &f->faults, &f->tokens), ERR_OK);
}

Test(tokens, words_have_their_line_and_column)
{
	static const char text[] = "# head\n\n  allow\thttps://a.example  as x # why\r\n"
				   "note \"two words # no comment \\\" \\\\\" end\nlast";
	static const struct {
		uint32_t line, column;
		const char *word;
		bool quoted;
	} rows[] = {
		{ 3, 3, "allow", false }, { 3, 9, "https://a.example", false },
		{ 3, 28, "as", false },	  { 3, 31, "x", false },
		{ 4, 1, "note", false },  { 4, 6, "two words # no comment \" \\", true },
		{ 4, 37, "end", false },  { 5, 1, "last", false },
	};
	struct fixture f;
	size_t at = 0;

	read_text(&f, text_of(text));
	cr_assert_eq(f.faults.error_count, 0);
	cr_assert_eq(f.tokens.line_count, 3);
	for (size_t i = 0; i < f.tokens.line_count; i++) {
		for (uint32_t j = 0; j < f.tokens.lines[i].token_count; j++, at++) {
			const struct token *t = &f.tokens.lines[i].tokens[j];

			cr_assert_lt(at, ARRAY_LEN(rows));
			cr_assert(text_is(t->text, rows[at].word), "%s", rows[at].word);
			cr_assert_eq(f.tokens.lines[i].line, rows[at].line);
			cr_assert_eq(t->column, rows[at].column, "%s: %u", rows[at].word, t->column);
			cr_assert_eq(t->quoted, rows[at].quoted);
		}
	}
	cr_assert_eq(at, ARRAY_LEN(rows));
	arena_finish(&f.arena);
}

Test(tokens, faulty_lines_are_reported_where_they_are_and_the_others_are_read)
{
	static const struct {
		const char *text;
		uint32_t line, column;
		const char *code;
		size_t good_lines;
	} rows[] = {
		{ "a\nb \"open\nc", 2, 3, "quote_open", 2 },
		{ "a b\"c\"", 1, 4, "quote_in_word", 0 },
		{ "a \"b\"c", 1, 6, "quote_adjacent", 0 },
		{ "a b#c\nok", 1, 4, "hash_in_word", 1 },
		{ "a \"b\\n\"", 1, 5, "bad_escape", 0 },
		{ "a \"b\\", 1, 5, "bad_escape", 0 },
		{ "ok\na \x01", 2, 3, "control_character", 1 },
		{ "a \x7f", 1, 3, "control_character", 0 },
		{ "a \xc2\x85", 1, 3, "control_character", 0 },
		{ "a\rb", 1, 2, "control_character", 0 },
		{ "a \xff", 1, 3, "bad_utf8", 0 },
		{ "a \xc0\xaf", 1, 3, "bad_utf8", 0 },
		{ "a \xe0\x9f\xbf", 1, 3, "bad_utf8", 0 },
		{ "a \xf0\x8f\xbf\xbf", 1, 3, "bad_utf8", 0 },
		{ "a \xed\xa0\x80", 1, 3, "bad_utf8", 0 },
		{ "a \xf4\x90\x80\x80", 1, 3, "bad_utf8", 0 },
		{ "a \xe2\x82", 1, 3, "bad_utf8", 0 },
		{ "\xef\xbb\xbfok", 1, 1, "byte_order_mark", 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;

		read_text(&f, text_of(rows[i].text));
		cr_assert_eq(f.faults.error_count, 1, "row %zu", i);
		cr_assert_str_eq(f.faults.first->code, rows[i].code);
		cr_assert_eq(f.faults.first->place.line, rows[i].line, "row %zu", i);
		cr_assert_eq(f.faults.first->place.column, rows[i].column, "row %zu: %u", i, f.faults.first->place.column);
		cr_assert_eq(f.tokens.line_count, rows[i].good_lines, "row %zu", i);
		arena_finish(&f.arena);
	}
}

Test(tokens, zero_bytes_and_good_unicode)
{
	struct fixture f;

	read_text(&f, (struct text){ "a\0b", 3 });
	cr_assert_str_eq(f.faults.first->code, "control_character");
	arena_finish(&f.arena);
	read_text(&f, text_of("allow https://b\xc3\xbc" "cher.example \xf0\x9f\x98\x80"));
	cr_assert_eq(f.faults.error_count, 0);
	cr_assert_eq(f.tokens.lines[0].token_count, 3);
	arena_finish(&f.arena);
}

static void expect_limit(size_t len, char fill, const char *code)
{
	char *text = alloc_zeroed(len);
	struct fixture f;

	memset(text, fill, len);
	for (size_t i = 1; code[0] == 'l' && fill == 'a' && len == 2 * TOKENS_WORDS_MAX + 2 && i < len; i += 2)
		text[i] = ' ';
	read_text(&f, (struct text){ text, len });
	cr_assert_eq(f.faults.error_count, 1);
	cr_assert_str_eq(f.faults.first->code, code);
	cr_assert_eq(f.tokens.line_count, 0);
	arena_finish(&f.arena);
	alloc_free(text);
}

Test(tokens, what_is_too_long_refuses)
{
	expect_limit(TOKENS_FILE_MAX + 1, '\n', "file_too_long");
	expect_limit(TOKENS_LINE_MAX + 1, 'a', "line_too_long");
	expect_limit(2 * TOKENS_WORDS_MAX + 2, 'a', "line_too_long");
}

Test(tokens, every_prefix_reads_without_reading_beyond)
{
	static const char text[] = "a \"b c\\\"\" d=e # f\r\n\xc3\xbc [x y]\n\n\"\"\n";

	for (size_t len = 0; len < sizeof(text); len++) {
		char *exact = alloc_copy(text, len);
		struct fixture f;

		read_text(&f, (struct text){ exact, len });
		arena_finish(&f.arena);
		alloc_free(exact);
	}
}

Test(tokens, without_memory_fails_whole)
{
	static const char text[] = "a b\nc \"d\"\n";
	bool succeeded = false;

	for (uint64_t nth = 1; !succeeded; nth++) {
		struct fixture f = { 0 };
		enum err err;

		arena_init(&f.arena, 0);
		fault_list_init(&f.faults, &f.arena);
		alloc_fail_at(nth);
		err = tokens_read(&f.arena, "t", text_of(text), &f.faults, &f.tokens);
		alloc_fail_at(0);
		succeeded = err == ERR_OK;
		if (!succeeded) {
			cr_assert_eq(err, ERR_NO_MEMORY);
			cr_assert_null(f.tokens.lines);
		}
		arena_finish(&f.arena);
		cr_assert_lt(nth, 100);
	}
}
