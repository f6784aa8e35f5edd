/* Segments received: kept while something names them, until the next root was taken and adopted otherwise. */
#include "daemon/segment_store.h"

#include <criterion/criterion.h>

#include "base/alloc.h"
#include "segment_builder.h"

static struct built_store built;
static struct segment_store store;
static struct segment *a[2], *b, *shared, *ceiling[2];

static void begin(void)
{
	built_store_init(&built);
	cr_assert_eq(segment_store_init(&store), ERR_OK);
	ceiling[0] = built_segment(&built, LAYOUT_CEILING, "allow any\n");
	ceiling[1] = built_segment(&built, LAYOUT_CEILING, "deny x.test\n");
	shared = built_segment(&built, LAYOUT_RULESET, "allow https://r.test\n");
	a[0] = built_segment(&built, LAYOUT_LEASE, "lease a\nruleset\nallow https://r.test\nend\n");
	a[1] = built_segment(&built, LAYOUT_LEASE, "lease a\n");
	b = built_segment(&built, LAYOUT_LEASE, "lease b\nruleset\nallow https://r.test\nend\n");
}

static void end(void)
{
	segment_store_finish(&store);
	built_store_finish(&built);
}

static void put(struct segment *s)
{
	cr_assert_eq(segment_store_put(&store, segment_ref(s)), ERR_OK);
}

static bool holds(const struct segment *s)
{
	return segment_store_find(&store, segment_id(s)) == s;
}

/* The snapshot that the store makes of changes to `before` (dropped), counted by the store. */
static struct snapshot *follow(struct snapshot *before, const struct segment *top, const struct built_named *named, size_t count)
{
	static uint8_t bytes[BUILT_BYTES_MAX];
	uint64_t base = before == NULL ? 0 : snapshot_version(before);
	size_t len = built_root_naming(base + 1, base, 0, top, named, count, bytes);
	const char *fault = NULL;
	struct snapshot *after;
	struct segment *root;

	cr_assert_eq(segment_open_bytes(bytes, len, &root, &fault), ERR_OK, "%s", fault);
	cr_assert_eq(snapshot_follow(before, root, segment_store_find, &store, &after, &fault), ERR_OK, "%s", fault);
	segment_store_follow(&store, before, after);
	segment_unref(root);
	snapshot_unref(before);
	return after;
}

Test(segment_store, keeps_what_is_named_and_drops_the_rest_at_the_sweep)
{
	struct snapshot *s;

	begin();
	put(ceiling[0]);
	put(ceiling[1]);
	put(shared);
	put(a[0]);
	put(b);
	put(b); /* again: the same */
	cr_expect_eq(segment_store_count(&store), 5);
	segment_store_sweep(&store); /* no root was taken yet */
	cr_expect_eq(segment_store_count(&store), 5);
	s = follow(NULL, ceiling[0], (struct built_named[]){ { "a", a[0] }, { "b", b } }, 2);
	segment_store_sweep(&store);
	cr_expect_eq(segment_store_count(&store), 4);
	cr_expect_not(holds(ceiling[1]));
	/* Two leases name the ruleset: one of them may leave it. */
	put(a[1]);
	s = follow(s, ceiling[0], &(struct built_named){ "a", a[1] }, 1);
	cr_expect(holds(a[0])); /* workers may still judge by it */
	segment_store_sweep(&store);
	cr_expect_not(holds(a[0]));
	cr_expect(holds(shared));
	put(ceiling[1]);
	s = follow(s, ceiling[1], &(struct built_named){ "b", NULL }, 1);
	segment_store_sweep(&store);
	cr_expect(holds(ceiling[1]) && holds(a[1]));
	cr_expect_eq(segment_store_count(&store), 2);
	snapshot_unref(s);
	end();
}

Test(segment_store, keeps_what_came_for_the_next_root_and_what_is_named_again)
{
	struct snapshot *s;

	begin();
	put(ceiling[0]);
	put(shared);
	put(a[0]);
	s = follow(NULL, ceiling[0], &(struct built_named){ "a", a[0] }, 1);
	put(a[1]);
	s = follow(s, ceiling[0], &(struct built_named){ "a", a[1] }, 1);
	put(a[0]); /* on its way out, sent again */
	put(b);
	segment_store_sweep(&store);
	cr_expect(holds(a[0]) && holds(b));
	cr_expect_not(holds(shared));
	put(shared);
	s = follow(s, ceiling[0], (struct built_named[]){ { "a", a[0] }, { "b", b } }, 2);
	s = follow(s, ceiling[0], &(struct built_named){ "a", a[1] }, 1);
	s = follow(s, ceiling[0], &(struct built_named){ "a", a[0] }, 1); /* left and came back before a sweep */
	segment_store_sweep(&store);
	cr_expect(holds(a[0]) && holds(b) && holds(shared) && holds(ceiling[0]));
	cr_expect_eq(segment_store_count(&store), 4);
	snapshot_unref(s);
	end();
}

Test(segment_store, drops_the_reference_it_was_given_when_memory_fails)
{
	uint64_t nth = 1;

	begin();
	for (;; nth++) {
		enum err e;

		alloc_fail_at(nth);
		e = segment_store_put(&store, segment_ref(b));
		alloc_fail_at(0);
		if (e == ERR_OK)
			break;
		cr_expect_not(holds(b));
	}
	cr_expect_gt(nth, 2);
	end();
}
