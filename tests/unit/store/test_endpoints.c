/* Which endpoint next, after how long. */
#include "store/endpoints.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/crypto.h"

Test(endpoints, a_list_is_taken_apart_and_what_is_no_address_refused)
{
	static const char *const bad[] = { "", ",", "a:1,", ",a:1", "https://", "u@h:1", "h:1/?x", "h 1", "a,,b" };
	struct endpoints e;

	cr_assert_eq(endpoints_init(&e, "10.0.0.1:2379,https://b.test/base/", "http://"), ERR_OK);
	cr_assert_eq(e.count, 2);
	cr_assert_str_eq(e.urls[0], "http://10.0.0.1:2379");
	cr_assert_str_eq(e.urls[1], "https://b.test/base");
	endpoints_finish(&e);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(endpoints_init(&e, bad[i], "http://"), ERR_INVALID, "%s", bad[i]);
	cr_assert_eq(endpoints_init(&e, "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "http://"), ERR_OK);
	endpoints_finish(&e);
	cr_assert_eq(endpoints_init(&e, "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "http://"), ERR_LIMIT);
}

Test(endpoints, each_failure_goes_to_the_next_and_waits_longer_up_to_a_cap)
{
	struct endpoints e;
	uint64_t most = 100;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(endpoints_init(&e, "a,b,c", "http://"), ERR_OK);
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t wait_ms = endpoints_fail(&e);

		cr_assert_geq(wait_ms, most / 2);
		cr_assert_leq(wait_ms, most);
		cr_assert_eq(endpoints_url(&e)[7], "abc"[(i + 1) % 3]);
		most = most * 2 < ENDPOINTS_WAIT_MAX_MS ? most * 2 : ENDPOINTS_WAIT_MAX_MS;
	}
	endpoints_succeed(&e);
	cr_assert_leq(endpoints_fail(&e), 100);
	endpoints_finish(&e);
}

Test(endpoints, a_wait_is_spread_over_all_of_its_bound)
{
	bool early = false, late = false;

	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(endpoints_spread(0), 0);
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t wait_ms = endpoints_spread(5000);

		cr_assert_leq(wait_ms, 5000);
		early = early || wait_ms < 500;
		late = late || wait_ms > 4500;
	}
	cr_assert(early && late);
}
