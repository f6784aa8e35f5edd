/* The last refusals: oldest first, never more than there is room for. */
#include <criterion/criterion.h>

#include "proxy/recent.h"

Test(recent, keeps_the_last_ones_and_tells_them_oldest_first)
{
	static struct recent r;

	for (uint64_t said = 0; said <= 3 * RECENT_MAX; said++) {
		const struct record *record;
		uint64_t at = 0, want = said < RECENT_MAX ? 0 : said - RECENT_MAX, told = 0;

		while ((record = recent_next(&r, &at)) != NULL) {
			cr_assert_eq(record->sequence, want);
			want++;
			told++;
		}
		cr_assert_eq(want, said);
		cr_assert_eq(told, said < RECENT_MAX ? said : RECENT_MAX);
		recent_remember(&r, &(struct record){ .sequence = said });
	}
	recent_finish(&r);
	cr_assert_null(recent_next(&r, &(uint64_t){ 0 }));
}
