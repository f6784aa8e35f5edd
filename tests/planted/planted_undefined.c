/* A test that overflows an int. Not part of TESTS: tests/planted/check.sh expects it to fail. */
#include <limits.h>

#include <criterion/criterion.h>

Test(planted, undefined_behaviour)
{
	volatile int largest = INT_MAX;

	cr_expect(largest + 1 != 0);
}
