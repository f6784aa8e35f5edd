/* The pool: zeroed objects, a limit, honest numbers. */
#include "base/pool.h"

#include <criterion/criterion.h>

#include "base/alloc.h"

Test(pool, never_has_more_live_than_its_limit_and_counts_the_high_water)
{
	struct pool p;
	void *objects[3];

	pool_init(&p, "session", 100, 3);
	for (int i = 0; i < 3; i++) {
		objects[i] = pool_take(&p);
		cr_assert_not_null(objects[i]);
	}
	cr_expect_null(pool_take(&p));
	pool_give(&p, objects[1]);
	cr_expect_eq(p.live, 2);
	objects[1] = pool_take(&p);
	cr_expect_not_null(objects[1]);
	for (int i = 0; i < 3; i++)
		pool_give(&p, objects[i]);
	pool_give(&p, NULL);
	cr_expect_eq(p.live, 0);
	cr_expect_eq(p.high_water, 3);
	pool_finish(&p);
}

Test(pool, an_object_that_was_used_before_comes_zeroed)
{
	struct pool p;
	unsigned char *object;

	pool_init(&p, "lookup", 64, 0);
	p.free_keep = 4;
	object = pool_take(&p);
	memset(object, 0xff, 64);
	pool_give(&p, object);
	cr_expect_eq(p.free_count, 1);
	object = pool_take(&p);
	for (int i = 0; i < 64; i++)
		cr_expect_eq(object[i], 0);
	pool_give(&p, object);
	pool_finish(&p);
}

Test(pool, keeps_no_more_free_objects_than_it_was_told)
{
	struct pool p;
	void *objects[8];

	pool_init(&p, "tiny", 1, 0);
	p.free_keep = 2;
	for (int i = 0; i < 8; i++)
		objects[i] = pool_take(&p);
	for (int i = 0; i < 8; i++)
		pool_give(&p, objects[i]);
	cr_expect_eq(p.free_count, 2);
	pool_finish(&p);
	cr_expect_eq(p.free_count, 0);
}

Test(pool, a_failed_allocation_changes_nothing)
{
	struct pool p;
	void *object;

	pool_init(&p, "session", 10, 0);
	alloc_fail_at(1);
	cr_expect_null(pool_take(&p));
	cr_expect_eq(p.live, 0);
	object = pool_take(&p);
	cr_expect_not_null(object);
	pool_give(&p, object);
	pool_finish(&p);
}

Test(pool, an_object_that_moves_is_counted_where_it_lives)
{
	struct pool here, there;
	void *object;

	pool_init(&here, "here", 8, 1);
	pool_init(&there, "there", 8, 1);
	object = pool_take(&here);
	cr_expect_null(pool_take(&here));
	pool_disown(&here);
	pool_adopt(&there);
	cr_expect_eq(here.live, 0);
	cr_expect_eq(there.live, 1);
	cr_expect_eq(there.high_water, 1);
	cr_expect_null(pool_take(&there));
	pool_give(&there, object);
	pool_finish(&here);
	pool_finish(&there);
}
