#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "document/json.h"

struct fixture {
	struct arena arena;
	struct json_faults faults;
	struct json *json;
	enum err err;
};

static void open_text(struct fixture *f, struct text text)
{
	f->json = NULL;
	arena_init(&f->arena, 0);
	json_faults_init(&f->faults, &f->arena);
	f->err = json_open(text, &f->faults, &f->json);
}

static void finish(struct fixture *f)
{
	json_close(f->json);
	arena_finish(&f->arena);
}

Test(json, what_other_parsers_shrug_at_refuses)
{
	static const struct {
		const char *text, *pointer, *code;
	} rows[] = {
		{ "", "", "bad_json" },
		{ "{", "", "bad_json" },
		{ "{\"a\":1}x", "", "bad_json" },
		{ "{\"a\":1,}", "", "bad_json" },
		{ "{'a':1}", "", "bad_json" },
		{ "{\"a\":01}", "", "bad_json" },
		{ "{\"a\":NaN}", "", "bad_json" },
		{ "{\"a\":18446744073709551616}", "", "bad_json" },
		{ "{\"a\":\"\\u0000\"}", "", "bad_json" },
		{ "{\"a\":\"\xff\"}", "", "bad_json" },
		{ "{\"a\":\"\\ud800\"}", "", "bad_json" },
		{ "{\"a\":1,\"a\":1}", "", "duplicate_key" },
		{ "{\"b\":{\"a\":1,\"a\":2}}", "", "duplicate_key" },
		{ "{\"a\":1.0}", "/a", "not_whole" },
		{ "{\"a\":[0,{\"b\":1e2}]}", "/a/1/b", "not_whole" },
		{ "[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]", "/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0", "too_deep" },
		{ "{\"a/b~c\":1.5}", "/a~1b~0c", "not_whole" },
		{ "{\"\\u00fc\":1.5}", "/\\xc3\\xbc", "not_whole" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;

		open_text(&f, text_of(rows[i].text));
		cr_assert_eq(f.err, ERR_INVALID, "%s", rows[i].text);
		cr_assert_null(f.json);
		cr_assert_eq(f.faults.count, 1, "%s", rows[i].text);
		cr_assert_str_eq(f.faults.first->code, rows[i].code, "%s", rows[i].text);
		cr_assert_str_eq(f.faults.first->pointer, rows[i].pointer);
		finish(&f);
	}
}

Test(json, sixteen_deep_is_read_and_no_more)
{
	struct fixture f;

	open_text(&f, text_of("[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]"));
	cr_assert_eq(f.err, ERR_OK);
	finish(&f);
}

Test(json, a_document_that_is_too_long_refuses)
{
	char *text = alloc_zeroed(JSON_DOCUMENT_MAX + 1);
	struct fixture f;

	memset(text, ' ', JSON_DOCUMENT_MAX + 1);
	memcpy(text, "{}", 2);
	open_text(&f, (struct text){ text, JSON_DOCUMENT_MAX });
	cr_assert_eq(f.err, ERR_OK);
	finish(&f);
	open_text(&f, (struct text){ text, JSON_DOCUMENT_MAX + 1 });
	cr_assert_eq(f.err, ERR_INVALID);
	cr_assert_str_eq(f.faults.first->code, "too_long");
	finish(&f);
	alloc_free(text);
}

Test(json, readers_give_values_or_a_fault_with_the_way)
{
	static const char text[] = "{\"n\":7,\"big\":9007199254740992,\"neg\":-1,\"yes\":true,\"s\":\"word\",\"list\":[\"a\",5],\"o\":{}}";
	struct fixture f;
	struct json_value top, n, big, neg, yes, s, list, o, none, second;
	uint64_t number = 99;
	bool on = false;
	const char *word = "unset";

	open_text(&f, text_of(text));
	cr_assert_eq(f.err, ERR_OK);
	top = json_top(f.json);
	n = json_member(&top, "n");
	big = json_member(&top, "big");
	neg = json_member(&top, "neg");
	yes = json_member(&top, "yes");
	s = json_member(&top, "s");
	list = json_member(&top, "list");
	o = json_member(&top, "o");
	none = json_member(&top, "none");
	cr_assert(json_u64(&f.faults, &n, 1, 7, &number));
	cr_assert_eq(number, 7);
	cr_assert(json_bool(&f.faults, &yes, &on) && on);
	cr_assert(json_text(&f.faults, &s, 1, 4, &word));
	cr_assert_str_eq(word, "word");
	cr_assert_eq(json_array_count(&f.faults, &list, 2), 2);
	cr_assert_not(json_is_present(&none));
	cr_assert_not(json_u64(&f.faults, &none, 0, 1, &number));
	cr_assert_not(json_bool(&f.faults, &none, &on));
	cr_assert_not(json_text(&f.faults, &none, 0, 1, &word));
	cr_assert_eq(json_array_count(&f.faults, &none, 2), 0);
	cr_assert_eq(f.faults.count, 0);

	second = json_element(&list, 1);
	cr_assert_not(json_u64(&f.faults, &n, 8, 9, &number));
	cr_assert_not(json_u64(&f.faults, &big, 0, 9007199254740991u, &number));
	cr_assert_not(json_u64(&f.faults, &neg, 0, 9, &number));
	cr_assert_not(json_u64(&f.faults, &s, 0, 9, &number));
	cr_assert_not(json_bool(&f.faults, &n, &on));
	cr_assert_not(json_text(&f.faults, &s, 5, 9, &word));
	cr_assert_not(json_text(&f.faults, &s, 0, 3, &word));
	cr_assert_not(json_text(&f.faults, &second, 0, 3, &word));
	cr_assert_eq(json_array_count(&f.faults, &list, 1), 0);
	cr_assert_eq(json_array_count(&f.faults, &o, 1), 0);
	cr_assert_eq(number, 7);
	cr_assert_str_eq(word, "word");
	cr_assert_eq(f.faults.count, 10);
	cr_assert_str_eq(f.faults.first->pointer, "/n");
	for (const struct json_fault *at = f.faults.first; at != NULL; at = at->next)
		if (strcmp(at->pointer, "/list/1") == 0)
			word = "found";
	cr_assert_str_eq(word, "found");
	finish(&f);
}

Test(json, unknown_and_missing_keys_are_faults)
{
	static const struct json_key keys[] = { { "a", true }, { "b", false } };
	struct fixture f;
	struct json_value top, c;

	open_text(&f, text_of("{\"c\":1,\"b\":2}"));
	top = json_top(f.json);
	cr_assert_not(json_object_check(&f.faults, &top, keys, ARRAY_LEN(keys)));
	cr_assert_eq(f.faults.count, 2);
	cr_assert_str_eq(f.faults.first->pointer, "/c");
	cr_assert_not_null(strstr(f.faults.first->text, "known here: a, b"));
	cr_assert_str_eq(f.faults.last->code, "missing_key");
	c = json_member(&top, "c");
	cr_assert_not(json_object_check(&f.faults, &c, keys, ARRAY_LEN(keys)));
	cr_assert_str_eq(f.faults.last->code, "wrong_kind");
	finish(&f);
}

Test(json, faults_beyond_the_limit_are_counted)
{
	struct fixture f;
	char text[400] = "[";
	size_t kept = 0;

	for (int i = 0; i < JSON_FAULTS_MAX + 5; i++)
		strcat(text, i == 0 ? "1.5" : ",1.5");
	strcat(text, "]");
	open_text(&f, text_of(text));
	cr_assert_eq(f.faults.count, JSON_FAULTS_MAX + 5);
	for (const struct json_fault *at = f.faults.first; at != NULL; at = at->next)
		kept++;
	cr_assert_eq(kept, JSON_FAULTS_MAX);
	finish(&f);
}
