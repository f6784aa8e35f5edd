/* In a network of the test's own: every address is in the list, and every change arrives. */
#include "net/address_watch.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "fixture.h"

struct seen {
	struct addr addrs[4096];
	size_t count;
	unsigned lists;
};

static struct seen seen;

static void on_list(void *arg, const struct addr *addrs, size_t count)
{
	struct seen *s = arg;

	cr_assert_leq(count, ARRAY_LEN(s->addrs));
	if (count > 0)
		memcpy(s->addrs, addrs, count * sizeof(*addrs));
	s->count = count;
	s->lists++;
}

static bool has(const struct seen *s, const struct addr *a)
{
	for (size_t i = 0; i < s->count; i++) {
		if (addr_equal(&s->addrs[i], a))
			return true;
	}
	return false;
}

static struct addr addr_at(const char *text)
{
	struct addr a;

	cr_assert(addr_parse(text_of(text), &a));
	return a;
}

/* Turn until `a` is in the list, or is not. */
static bool comes_to_be(struct loop *l, const struct addr *a, bool there)
{
	uint64_t from_ms = clock_mono_ms();

	while (has(&seen, a) != there && clock_mono_ms() - from_ms < 10000)
		loop_turn(l, 20);
	return has(&seen, a) == there;
}

Test(address_watch, reads_the_list_and_follows_every_change)
{
	static const char *const rows[] = { "203.0.113.7", "2001:db8::7" };
	struct addr loopback4 = addr_at("127.0.0.1"), loopback6 = addr_at("::1");
	struct address_watch *w = NULL;
	struct loop *l;
	size_t fds;

	fixture_own_network();
	fds = fixture_fd_count();
	cr_assert_eq(address_watch_open(&w), ERR_OK);
	cr_assert_eq(address_watch_read(w, on_list, &seen), ERR_OK);
	cr_expect_eq(seen.lists, 1);
	cr_expect_eq(seen.count, 2);
	cr_expect(has(&seen, &loopback4) && has(&seen, &loopback6));

	l = loop_create();
	cr_assert_eq(address_watch_start(w, l, on_list, &seen), ERR_OK);
	cr_expect_eq(seen.lists, 1, "never inside the call");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct addr a = addr_at(rows[i]);

		fixture_set_address(&a, true);
		cr_expect(comes_to_be(l, &a, true), "%s arrives", rows[i]);
		cr_expect(has(&seen, &loopback4) && has(&seen, &loopback6));
		fixture_set_address(&a, false);
		cr_expect(comes_to_be(l, &a, false), "%s goes", rows[i]);
	}
	address_watch_close(w);
	address_watch_close(NULL);
	loop_destroy(l);
	cr_expect_eq(fixture_fd_count(), fds);
}

Test(address_watch, reads_again_after_changes_that_were_lost)
{
	struct address_watch *w = NULL;
	struct addr last = { 0 };
	struct loop *l;

	fixture_own_network();
	l = loop_create();
	cr_assert_eq(address_watch_open(&w), ERR_OK);
	cr_assert_eq(address_watch_start(w, l, on_list, &seen), ERR_OK);
	/* More changes than the socket can queue, while nobody reads. */
	for (unsigned i = 0; i < 3000; i++) {
		uint8_t octets[4] = { 198, 18, (uint8_t)(i >> 8), (uint8_t)i };

		last = addr_v4(octets);
		fixture_set_address(&last, true);
	}
	cr_expect(comes_to_be(l, &last, true));
	cr_expect_eq(seen.count, 3002);
	address_watch_close(w);
	loop_destroy(l);
}
