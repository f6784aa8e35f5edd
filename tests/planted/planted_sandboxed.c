/* An overflow behind the door: the report must still come out. Not part of TESTS: tests/planted/check.sh expects it to fail. */
#include <criterion/criterion.h>

#include "base/alloc.h"
#include "base/log.h"
#include "sandbox/sandbox.h"

Test(planted, an_overflow_in_the_sandbox)
{
	struct sandbox_options options = { .role = SANDBOX_ROLE_DAEMON };
	struct sandbox_report report;
	char *volatile block = alloc_zeroed(77);

	log_init("planted", LOG_LEVEL_ERROR);
	if (sandbox_enter(&options, &report) == ERR_OK)
		block[77] = 1;
	alloc_free(block);
}
