#include <criterion/criterion.h>
#include <string.h>

#include "base/alloc.h"
#include "config/fault.h"

static const struct fault_place here = { .file = "a.policy", .line = 3, .column = 9 };

Test(fault, prints_place_severity_sentence_and_code)
{
	struct arena arena;
	struct fault_list list;
	char text[200];

	arena_init(&arena, 0);
	fault_list_init(&list, &arena);
	fault_add(&list, here, FAULT_ERROR, "bad_value", "expected %d", 7);
	fault_add(&list, (struct fault_place){ .file = "x" }, FAULT_WARNING, "w", "odd");
	fault_add(&list, (struct fault_place){ .file = "y.json", .pointer = "/a/0" }, FAULT_ERROR, "e", "no");
	fault_add(&list, (struct fault_place){ .pointer = "" }, FAULT_ERROR, "e", "no");
	fault_print(list.first, text, sizeof(text));
	cr_assert_str_eq(text, "a.policy:3:9: error: expected 7 [bad_value]");
	fault_print(list.first->next, text, sizeof(text));
	cr_assert_str_eq(text, "x: warning: odd [w]");
	fault_print(list.first->next->next, text, sizeof(text));
	cr_assert_str_eq(text, "y.json: /a/0: error: no [e]");
	fault_print(list.last, text, sizeof(text));
	cr_assert_str_eq(text, "-: /: error: no [e]");
	cr_assert_eq(fault_print(list.first, text, 10), 9);
	cr_assert_eq(list.error_count, 3);
	cr_assert_eq(list.warning_count, 1);
	cr_assert_not(fault_list_is_clean(&list));
	arena_finish(&arena);
}

Test(fault, counts_what_it_no_longer_keeps)
{
	struct arena arena;
	struct fault_list list;
	size_t kept = 0;

	arena_init(&arena, 0);
	fault_list_init(&list, &arena);
	for (int i = 0; i < FAULT_KEEP_MAX + 10; i++)
		fault_add(&list, here, FAULT_ERROR, "e", "%d", i);
	for (const struct fault *f = list.first; f != NULL; f = f->next)
		kept++;
	cr_assert_eq(kept, FAULT_KEEP_MAX);
	cr_assert_eq(list.error_count, FAULT_KEEP_MAX + 10);
	arena_finish(&arena);
}

Test(fault, without_memory_is_still_an_error)
{
	for (uint64_t nth = 1; nth <= 2; nth++) {
		struct arena arena;
		struct fault_list list;

		arena_init(&arena, nth == 1 ? 1 : sizeof(struct fault) + 16);
		fault_list_init(&list, &arena);
		fault_add(&list, here, FAULT_ERROR, "e", "a sentence that is longer than what is left");
		cr_assert_not(fault_list_is_clean(&list));
		cr_assert(list.out_of_memory);
		arena_finish(&arena);
	}
}

Test(fault, finds_the_word_that_was_meant)
{
	static const char *const words[] = { "workers", "leases_max", "control", "user", "as" };
	static const struct {
		const char *word, *near;
	} rows[] = {
		{ "worker", "workers" }, { "wrokers", "workers" }, { "Workers", "workers" }, { "lease_max", "leases_max" },
		{ "contrl", "control" }, { "usr", "user" },	{ "xyz", NULL },	  { "banana", NULL },
		{ "u", NULL },		{ "xy", NULL },	  { "sa", "as" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *near = fault_nearest(text_of(rows[i].word), words, ARRAY_LEN(words));

		if (rows[i].near == NULL)
			cr_assert_null(near, "%s gave %s", rows[i].word, near);
		else
			cr_assert_str_eq(near, rows[i].near);
	}
}
