/* The set of own addresses: membership at the edges, many entries, and what is not an address. */
#include "facts/own_addresses.h"

#include <criterion/criterion.h>

#include "base/alloc.h"
#include "base/attr.h"
#include "texts.h"

Test(own_addresses, contain_their_prefixes_to_the_last_bit_and_nothing_else)
{
	static const char *const inside[] = { "192.0.2.1",     "10.8.0.0",
					      "10.11.255.255", "2a00:1::1",
					      "2a00:2::",      "2a00:2:0:0:ffff:ffff:ffff:ffff",
					      "172.20.0.9" };
	static const char *const outside[] = { "192.0.2.0",
					       "192.0.2.2",
					       "10.7.255.255",
					       "10.12.0.0",
					       "2a00:1::2",
					       "2a00:2:0:1::",
					       "2a00:1:ffff:ffff:ffff:ffff:ffff:ffff",
					       "::192.0.2.1",
					       "::ffff:192.0.2.1",
					       "172.20.0.8" };
	struct prefix p[] = { prefix_in("192.0.2.1"), prefix_in("10.8.0.0/14"),
			      prefix_in("2a00:1::1"), prefix_in("2a00:2::/64"),
			      prefix_in("192.0.2.1"), prefix_in("172.20.0.9/32") };
	struct own_addresses *own = own_addresses_create(p, ARRAY_LEN(p));

	cr_assert_not_null(own);
	cr_expect_eq(own_addresses_count(own), 6);
	for (size_t i = 0; i < ARRAY_LEN(inside); i++) {
		struct addr a = addr_in(inside[i]);

		cr_expect(own_addresses_contain(own, &a), "%s", inside[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(outside); i++) {
		struct addr a = addr_in(outside[i]);

		cr_expect_not(own_addresses_contain(own, &a), "%s", outside[i]);
	}
	own_addresses_unref(own);
}

Test(own_addresses, bits_behind_the_length_do_not_matter)
{
	struct prefix p = { addr_in("10.8.77.66"), 14 };
	struct own_addresses *own = own_addresses_create(&p, 1);
	struct addr in = addr_in("10.11.0.1"), out = addr_in("10.12.0.1");

	cr_expect(own_addresses_contain(own, &in));
	cr_expect_not(own_addresses_contain(own, &out));
	own_addresses_unref(own);
}

Test(own_addresses, a_zero_length_prefix_holds_its_family_alone)
{
	struct prefix p = prefix_in("0.0.0.0/0");
	struct own_addresses *own = own_addresses_create(&p, 1);
	struct addr v4 = addr_in("255.1.2.3"), v6 = addr_in("2a00::1");

	cr_expect(own_addresses_contain(own, &v4));
	cr_expect_not(own_addresses_contain(own, &v6));
	own_addresses_unref(own);
}

Test(own_addresses, thousands_of_entries_are_all_found_and_their_gaps_are_not)
{
	enum { COUNT = 4000 };
	struct prefix *p = alloc_array(COUNT, sizeof(*p));
	struct own_addresses *own;

	cr_assert_not_null(p);
	/* Every other address, fed from the far end. */
	for (unsigned i = 0; i < COUNT; i++) {
		unsigned n = 2 * (COUNT - 1 - i);

		p[i] = (struct prefix){ { ADDR_V4, { 100, 70, (uint8_t)(n >> 8), (uint8_t)n } },
					32 };
	}
	own = own_addresses_create(p, COUNT);
	for (unsigned n = 0; n < 2 * COUNT; n++) {
		struct addr a = { ADDR_V4, { 100, 70, (uint8_t)(n >> 8), (uint8_t)n } };

		cr_assert_eq(own_addresses_contain(own, &a), n % 2 == 0, "%u", n);
	}
	own_addresses_unref(own);
	alloc_free(p);
}

Test(own_addresses, nothing_contains_nothing)
{
	struct addr a = addr_in("10.0.0.1"), none = { 0 };
	struct own_addresses *empty = own_addresses_create(NULL, 0);
	struct prefix unsound[] = { { { ADDR_NONE, { 0 } }, 0 },
				    { addr_in("10.0.0.0"), 33 },
				    { addr_in("::"), 129 } };
	struct own_addresses *without = own_addresses_create(unsound, ARRAY_LEN(unsound));

	cr_expect_not(own_addresses_contain(NULL, &a));
	cr_expect_eq(own_addresses_count(NULL), 0);
	cr_expect_not(own_addresses_contain(empty, &a));
	cr_expect_eq(own_addresses_count(without), 0);
	cr_expect_not(own_addresses_contain(without, &a));
	cr_expect_not(own_addresses_contain(without, &none));
	own_addresses_unref(empty);
	own_addresses_unref(without);
	own_addresses_unref(NULL);
}

Test(own_addresses, live_as_long_as_a_reference_does)
{
	struct prefix p = prefix_in("10.0.0.1");
	struct own_addresses *own = own_addresses_create(&p, 1);
	struct own_addresses *second = own_addresses_ref(own);
	struct addr a = addr_in("10.0.0.1");

	own_addresses_unref(own);
	cr_expect(own_addresses_contain(second, &a));
	own_addresses_unref(second);
}

Test(own_addresses, without_memory_there_is_no_set)
{
	struct prefix p = prefix_in("10.0.0.1");

	alloc_fail_at(1);
	cr_expect_null(own_addresses_create(&p, 1));
	alloc_fail_at(0);
	cr_expect_null(own_addresses_create(&p, SIZE_MAX / 2));
}
