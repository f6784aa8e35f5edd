/* The order of addresses and the moments at which they may start. */
#include "net/race.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/attr.h"

/* "464" is IPv4, IPv6, IPv4. */
static size_t endpoints_of(const char *families, struct endpoint *out_endpoints)
{
	size_t count = strlen(families);

	for (size_t i = 0; i < count; i++) {
		out_endpoints[i] = (struct endpoint){ 0 };
		out_endpoints[i].addr.family = families[i] == '4' ? ADDR_V4 : ADDR_V6;
	}
	return count;
}

Test(race, interleaves_the_families_and_keeps_six)
{
	static const struct {
		const char *families;
		enum race_prefer prefer;
		const char *order;
	} rows[] = { /* the index after 9 prints as ":" */
		{ "", RACE_PREFER_V6, "" },
		{ "4", RACE_PREFER_V6, "0" },
		{ "6", RACE_PREFER_V4, "0" },
		{ "46", RACE_PREFER_V6, "10" },
		{ "46", RACE_PREFER_V4, "01" },
		{ "4466", RACE_PREFER_V6, "2031" },
		{ "6644", RACE_PREFER_V4, "2031" },
		{ "44446", RACE_PREFER_V6, "40123" },
		{ "66664", RACE_PREFER_V6, "04123" },
		{ "66664", RACE_PREFER_V4, "40123" },
		{ "44444444", RACE_PREFER_V6, "012345" },
		{ "444444446666", RACE_PREFER_V6, "8091:2" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct endpoint endpoints[16];
		char order[RACE_ATTEMPTS_MAX + 1] = "";
		struct race r;
		size_t index;

		race_init(&r, endpoints, endpoints_of(rows[i].families, endpoints), rows[i].prefer, 0);
		for (uint64_t now_ms = 0; race_take(&r, now_ms, &index); now_ms += RACE_DELAY_MS)
			order[r.started - 1] = (char)('0' + index);
		cr_expect_str_eq(order, rows[i].order, "row %zu", i);
	}
}

Test(race, starts_the_next_after_250_ms_or_at_once_when_one_failed)
{
	struct endpoint endpoints[4];
	struct race r;
	size_t index = 99;

	race_init(&r, endpoints, endpoints_of("4444", endpoints), RACE_PREFER_V6, 1000);
	cr_expect(!race_is_lost(&r));
	cr_expect_eq(race_wait_ms(&r, 1000), 0);
	cr_expect(!race_take(&r, 999, &index));
	cr_expect_eq(index, 99, "written only on success");
	cr_expect(race_take(&r, 1000, &index));
	cr_expect_eq(index, 0);
	cr_expect(!race_take(&r, 1249, &index));
	cr_expect_eq(race_wait_ms(&r, 1100), 150);
	cr_expect(race_take(&r, 1250, &index));
	cr_expect_eq(index, 1);
	race_failed(&r, 1300);
	cr_expect_eq(race_wait_ms(&r, 1300), 0);
	cr_expect(race_take(&r, 1300, &index));
	cr_expect_eq(index, 2);
	cr_expect(!race_take(&r, 1300, &index));
	race_failed(&r, 1310);
	cr_expect(race_take(&r, 1310, &index));
	cr_expect_eq(race_wait_ms(&r, 1310), UINT64_MAX);
	race_failed(&r, 1320);
	cr_expect(!race_is_lost(&r), "one is still pending");
	race_failed(&r, 1330);
	cr_expect(race_is_lost(&r));
	cr_expect(!race_take(&r, 9999, &index));
}
