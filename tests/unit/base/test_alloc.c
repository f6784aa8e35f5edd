/* Allocation: zeroed, product checked, and the nth one fails when a test asks for it. */
#include "base/alloc.h"

#include <criterion/criterion.h>

Test(alloc, memory_comes_zeroed_and_products_that_wrap_fail)
{
	uint8_t *bytes = alloc_array(25, 4);

	cr_assert_not_null(bytes);
	for (size_t i = 0; i < 100; i++)
		cr_expect_eq(bytes[i], 0);
	alloc_free(bytes);
	cr_expect_null(alloc_array(SIZE_MAX / 2, 3));
	cr_expect_null(alloc_resize(NULL, SIZE_MAX, SIZE_MAX));
	cr_expect_null(alloc_copy("x", SIZE_MAX));
	alloc_free(NULL);
}

Test(alloc, a_size_of_zero_is_a_block_and_not_a_failure)
{
	void *empty = alloc_zeroed(0);
	void *block = alloc_resize(alloc_zeroed(10), 0, 5);

	cr_expect_not_null(empty);
	cr_expect_not_null(block);
	alloc_free(empty);
	alloc_free(block);
}

Test(alloc, a_copy_ends_with_a_zero_byte)
{
	char *copy = alloc_copy("abcdef", 3);
	char *nothing = alloc_copy(NULL, 0);

	cr_expect_str_eq(copy, "abc");
	cr_expect_str_eq(nothing, "");
	alloc_free(copy);
	alloc_free(nothing);
}

Test(alloc, resizing_keeps_the_bytes_and_a_failure_keeps_the_block)
{
	char *text = alloc_copy("kept", 4);
	char *longer;

	alloc_fail_at(1);
	cr_expect_null(alloc_resize(text, 1000, 1));
	longer = alloc_resize(text, 1000, 1);
	cr_assert_not_null(longer);
	cr_expect_str_eq(longer, "kept");
	alloc_free(longer);
}

Test(alloc, exactly_the_nth_call_fails_once)
{
	for (uint64_t nth = 1; nth <= 4; nth++) {
		alloc_fail_at(nth);
		for (uint64_t i = 1; i <= 8; i++) {
			void *block = i % 2 ? alloc_zeroed(1) : alloc_copy("x", 1);

			cr_expect_eq(block == NULL, i == nth);
			alloc_free(block);
		}
		cr_expect_eq(alloc_count(), 8);
	}
	alloc_fail_at(0);
	cr_expect_eq(alloc_count(), 0);
}
