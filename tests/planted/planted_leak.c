/* A test that passes and leaks. Not part of TESTS: tests/planted/check.sh expects it to fail. */
#include <criterion/criterion.h>

#include "base/alloc.h"

Test(planted, a_leak)
{
	static void *volatile lost;

	lost = alloc_zeroed(77);
	cr_expect_not_null(lost);
	lost = NULL;
}
