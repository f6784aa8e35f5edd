/* The arena: aligned, zeroed, limited, and gone in one go (the leak check is part of these tests). */
#include "base/arena.h"

#include <criterion/criterion.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

Test(arena, objects_are_zeroed_aligned_and_do_not_overlap)
{
	struct arena a;
	unsigned char *before = NULL;

	arena_init(&a, 0);
	for (size_t size = 0; size < 300; size++) {
		unsigned char *taken = arena_take(&a, size);

		cr_assert_not_null(taken);
		cr_expect_eq((uintptr_t)taken % alignof(max_align_t), 0);
		for (size_t i = 0; i < size; i++)
			cr_assert_eq(taken[i], 0);
		memset(taken, 0xa5, size);
		if (before != NULL && size > 1)
			cr_expect_eq(before[0], 0xa5);
		before = taken;
	}
	arena_finish(&a);
	cr_expect_eq(a.used, 0);
}

Test(arena, hands_out_up_to_its_limit_and_not_more)
{
	struct arena a;
	size_t taken = 0;

	arena_init(&a, 1000);
	while (arena_take(&a, 16) != NULL)
		taken += 16;
	cr_expect(taken <= 1000 && taken > 900, "%zu", taken);
	cr_expect_eq(a.used, taken);
	cr_expect_null(arena_take(&a, 500));
	arena_finish(&a);
}

Test(arena, refuses_sizes_that_wrap_and_passes_on_a_failed_allocation)
{
	struct arena a;

	arena_init(&a, 0);
	cr_expect_null(arena_take(&a, SIZE_MAX));
	cr_expect_null(arena_take_array(&a, SIZE_MAX / 4, 5));
	cr_expect_null(arena_text(&a, "x", SIZE_MAX));
	alloc_fail_at(1);
	cr_expect_null(arena_take(&a, 10));
	cr_expect_not_null(arena_take_array(&a, 3, 7));
	arena_finish(&a);
}

Test(arena, text_is_copied_and_ended_and_large_objects_get_room)
{
	struct arena a;
	char *large;

	arena_init(&a, 0);
	cr_expect_str_eq(arena_text(&a, "allow https", 5), "allow");
	cr_expect_str_eq(arena_text(&a, NULL, 0), "");
	large = arena_take(&a, 100000);
	cr_assert_not_null(large);
	large[99999] = 1;
	cr_expect_str_eq(arena_text(&a, "after", 5), "after");
	arena_finish(&a);
}
