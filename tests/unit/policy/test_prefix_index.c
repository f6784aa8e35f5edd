/* The prefix index against prefix_contains, for every length and the addresses around each edge. */
#include "policy/prefix_index.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "segment_builder.h"

#define PREFIXES_MAX 512

static struct prefix prefixes[PREFIXES_MAX];
static size_t prefix_count;
static unsigned times[PREFIXES_MAX];

static void on_visit(void *arg, uint32_t number)
{
	(void)arg;
	cr_assert_lt(number, prefix_count);
	times[number]++;
}

static void compare(const struct segment *s, const struct addr *a)
{
	char text[ADDR_TEXT_MAX];

	memset(times, 0, sizeof(times));
	prefix_index_visit(s, a, on_visit, NULL);
	for (size_t i = 0; i < prefix_count; i++)
		cr_assert_eq(times[i], prefix_contains(&prefixes[i], a) ? 1 : 0, "prefix %zu and %s", i,
			     addr_print(a, text));
}

static void put_prefix(const struct addr *from, uint8_t len)
{
	struct prefix p = { .addr = *from, .len = len };

	for (size_t bit = len; bit < addr_len(from) * 8; bit++)
		p.addr.octets[bit / 8] &= (uint8_t)~(0x80 >> (bit % 8));
	prefixes[prefix_count++] = p;
}

static struct segment *build(struct built_store *store)
{
	static char text[PREFIXES_MAX * 64];
	char printed[PREFIX_TEXT_MAX];
	size_t len = 0;

	for (size_t i = 0; i < prefix_count; i++) {
		const char *open = prefixes[i].addr.family == ADDR_V6 ? "[" : "";
		const char *close = prefixes[i].addr.family == ADDR_V6 ? "]" : "";

		len += (size_t)snprintf(text + len, sizeof(text) - len, "deny %s%s%s\n", open,
					prefix_print(&prefixes[i], printed), close);
	}
	built_store_init(store);
	return built_segment(store, LAYOUT_RULESET, text);
}

/* The address itself and its neighbours by every bit. */
static void compare_around(const struct segment *s, const struct addr *a)
{
	compare(s, a);
	for (size_t bit = 0; bit < addr_len(a) * 8; bit++) {
		struct addr other = *a;

		other.octets[bit / 8] ^= (uint8_t)(0x80 >> (bit % 8));
		compare(s, &other);
	}
}

Test(prefix_index, finds_every_prefix_that_contains_an_address_and_no_other)
{
	static struct built_store store;
	static const uint8_t v4[4] = { 172, 21, 99, 254 };
	static const uint8_t v6[16] = { 0x20, 0x01, 0x0d, 0xb8, 0xff, 0, 0x55, 0xaa,
					1, 2, 3, 4, 5, 6, 7, 0xff };
	struct addr a4 = addr_v4(v4), a6 = addr_v6(v6), other = addr_v4(v4);
	struct segment *s;

	prefix_count = 0;
	other.octets[0] = 10;
	for (uint8_t len = 0; len <= 32; len++)
		put_prefix(&a4, len);
	for (uint8_t len = 1; len <= 32; len += 3)
		put_prefix(&other, len);
	for (unsigned len = 0; len <= 128; len++)
		put_prefix(&a6, (uint8_t)len);
	s = build(&store);
	compare_around(s, &a4);
	compare_around(s, &other);
	compare_around(s, &a6);
	built_store_finish(&store);
}

Test(prefix_index, keeps_the_families_apart)
{
	static struct built_store store;
	static const uint8_t octets[16] = { 10 };
	struct addr v6 = addr_v6(octets), v4 = addr_v4(octets), none = { 0 };
	struct segment *s;

	prefix_count = 0;
	put_prefix(&v4, 8);
	put_prefix(&v4, 0);
	s = build(&store);
	compare(s, &v6);
	compare(s, &none);
	compare(s, &v4);
	cr_expect_eq(times[0] + times[1], 2);
	built_store_finish(&store);
}
