/* The words of breaks and the groups of cells. */
#include "store/frames.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/crypto.h"

Test(frames, every_break_has_a_word_of_its_own)
{
	for (unsigned i = 0; i < FRAMES_BREAK_COUNT; i++)
		for (unsigned k = 0; k < i; k++)
			cr_assert_str_neq(frames_break_word((enum frames_break)i), frames_break_word((enum frames_break)k));
	cr_assert_str_eq(frames_break_word(FRAMES_BREAK_COUNT), "unknown");
}

Test(frames, a_cell_has_one_group_and_cells_spread)
{
	unsigned seen = 0;

	cr_assert_eq(crypto_init(), ERR_OK);
	/* printf c-0161 | sha256sum begins with this byte: what an authority in another language computes. */
	cr_assert_eq(frames_group_of("c-0161"), 0x5f % 32);
	for (char c = 'a'; c <= 'z'; c++) {
		char cell[] = { 'c', '-', c, '\0' };

		cr_assert_lt(frames_group_of(cell), 32);
		seen |= 1u << frames_group_of(cell);
	}
	cr_assert_gt(__builtin_popcount(seen), 8);
}
