/* The token bucket: a burst of one second's worth, then the rate, whatever the steps of time. */
#include <criterion/criterion.h>

#include "proxy/bucket.h"

Test(bucket, gives_a_second_at_once_and_then_the_rate)
{
	struct bucket b = { 0 };
	unsigned got = 0;

	for (int i = 0; i < 20; i++)
		got += bucket_take(&b, 5, 1000);
	cr_expect_eq(got, 5, "a burst of 5, not %u", got);
	cr_expect_not(bucket_take(&b, 5, 1199));
	cr_expect(bucket_take(&b, 5, 1200), "one more after a fifth of a second");
	cr_expect_not(bucket_take(&b, 5, 1200));
}

Test(bucket, never_holds_more_than_a_second)
{
	struct bucket b = { 0 };
	unsigned got = 0;

	cr_assert(bucket_take(&b, 3, 0));
	for (int i = 0; i < 20; i++)
		got += bucket_take(&b, 3, 1000000);
	cr_expect_eq(got, 3);
}

Test(bucket, zero_and_the_greatest_number_mean_no_limit)
{
	struct bucket b = { 0 };

	for (int i = 0; i < 1000; i++) {
		cr_expect(bucket_take(&b, 0, 7));
		cr_expect(bucket_take(&b, UINT64_MAX, 7));
	}
}

Test(bucket, a_clock_that_stands_or_goes_back_gives_nothing)
{
	struct bucket b = { 0 };

	cr_assert(bucket_take(&b, 1, 5000));
	cr_expect_not(bucket_take(&b, 1, 5000));
	cr_expect_not(bucket_take(&b, 1, 100));
	cr_expect(bucket_take(&b, 1, 6000));
}

Test(bucket, a_lower_rate_takes_back_what_was_saved)
{
	struct bucket b = { 0 };
	unsigned got = 0;

	cr_assert(bucket_take(&b, 1000, 10));
	for (int i = 0; i < 100; i++)
		got += bucket_take(&b, 2, 10);
	cr_expect_eq(got, 2, "of the thousand saved only the new rate's worth counts");
}
