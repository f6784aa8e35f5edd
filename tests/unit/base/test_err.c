/* Every failure has its own text, and a value outside the table has one too. */
#include "base/err.h"

#include <criterion/criterion.h>

Test(err, every_failure_has_a_text_of_its_own)
{
	for (int a = 0; a < ERR_COUNT; a++) {
		cr_expect(err_text((enum err)a)[0] != '\0');
		for (int b = 0; b < a; b++)
			cr_expect_str_neq(err_text((enum err)a), err_text((enum err)b));
	}
	cr_expect_str_eq(err_text(ERR_OK), "ok");
	cr_expect_str_eq(err_text(ERR_COUNT), "unknown error");
	cr_expect_str_eq(err_text((enum err)-1), "unknown error");
}
