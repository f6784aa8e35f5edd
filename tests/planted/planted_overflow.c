/* A test that writes one byte behind a block. Not part of TESTS: tests/planted/check.sh expects it to fail. */
#include <criterion/criterion.h>

#include "base/alloc.h"

Test(planted, an_overflow)
{
	char *volatile block = alloc_zeroed(77);

	block[77] = 1;
	alloc_free(block);
}
