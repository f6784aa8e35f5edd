/* The loop's promises: turns, order, and that what was stopped does not come. */
#include "net/loop.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "fixture.h"

struct count {
	struct loop *loop;
	unsigned calls;
	unsigned what;
	struct loop_watch *stop; /* stopped by the first that is ready */
	struct loop_timer *cancel;
	bool done;
};

static void on_ready(void *arg, int fd, unsigned what)
{
	struct count *c = arg;

	c->calls++;
	c->what |= what;
	c->done = true;
	if (c->stop != NULL)
		loop_watch_stop(c->stop);
	if (c->cancel != NULL)
		loop_timer_cancel(c->cancel);
}

static void on_call(void *arg)
{
	struct count *c = arg;

	c->calls++;
	c->done = true;
}

Test(loop, tells_of_readiness_as_long_as_it_lasts_and_not_when_stopped)
{
	size_t fds = fixture_fd_count();
	struct loop *l = loop_create();
	struct count c = { .loop = l };
	struct loop_watch w;
	int pair[2];
	char byte;

	cr_assert_not_null(l);
	fixture_unix_pair(pair);
	loop_watch_init(&w, l, pair[0], LOOP_READ, on_ready, &c);
	cr_assert_eq(loop_watch_start(&w), ERR_OK);
	cr_assert_eq(loop_watch_start(&w), ERR_OK, "starting twice is harmless");
	loop_turn(l, 0);
	cr_expect_eq(c.calls, 0);
	fixture_send(pair[1], "x", 1);
	loop_turn(l, 1000);
	loop_turn(l, 1000);
	cr_expect_eq(c.calls, 2, "level-triggered");
	cr_expect_eq(c.what, LOOP_READ);
	loop_watch_stop(&w);
	loop_watch_stop(&w);
	loop_turn(l, 0);
	cr_expect_eq(c.calls, 2);
	cr_assert_eq(loop_watch_start(&w), ERR_OK);
	loop_turn(l, 0);
	cr_expect_eq(c.calls, 3);
	cr_assert_eq(read(pair[0], &byte, 1), 1);
	loop_turn(l, 0);
	cr_expect_eq(c.calls, 3);
	loop_watch_stop(&w);

	loop_watch_init(&w, l, pair[0], LOOP_READ | LOOP_WRITE, on_ready, &c);
	cr_assert_eq(loop_watch_start(&w), ERR_OK);
	c.what = 0;
	fixture_send(pair[1], "y", 1);
	loop_turn(l, 1000);
	cr_expect_eq(c.what, LOOP_READ | LOOP_WRITE);
	loop_watch_stop(&w);

	close(pair[0]);
	close(pair[1]);
	loop_destroy(l);
	cr_expect_eq(fixture_fd_count(), fds);
}

Test(loop, brings_nothing_for_a_watch_stopped_by_another_in_the_same_turn)
{
	struct loop *l = loop_create();
	struct count c[2] = { { .loop = l }, { .loop = l } };
	struct loop_watch w[2];
	struct loop_watch *lent;
	int pairs[2][2];

	for (size_t i = 0; i < 2; i++) {
		fixture_unix_pair(pairs[i]);
		loop_watch_init(&w[i], l, pairs[i][0], LOOP_READ, on_ready, &c[i]);
		cr_assert_eq(loop_watch_start(&w[i]), ERR_OK);
		c[i].stop = &w[1 - i];
		fixture_send(pairs[i][1], "x", 1);
	}
	loop_turn(l, 1000);
	cr_expect_eq(c[0].calls + c[1].calls, 1, "both were ready, the first stopped the other");
	loop_turn(l, 0);
	cr_expect_eq(c[0].calls + c[1].calls, 2, "the one left comes again");
	loop_watch_stop(&w[0]);
	loop_watch_stop(&w[1]);

	/* The same for two watches on one descriptor, one of them lent. */
	c[0] = (struct count){ .loop = l };
	lent = loop_lend_write(l, pairs[0][0], on_ready, &c[1]);
	cr_assert_not_null(lent);
	c[0].stop = lent;
	c[1] = (struct count){ .stop = &w[0] };
	cr_assert_eq(loop_watch_start(&w[0]), ERR_OK);
	loop_turn(l, 1000);
	cr_expect_eq(c[0].calls + c[1].calls, 1);
	loop_watch_stop(&w[0]);
	loop_return_write(lent);
	loop_return_write(NULL);

	for (size_t i = 0; i < 2; i++) {
		close(pairs[i][0]);
		close(pairs[i][1]);
	}
	loop_destroy(l);
}

Test(loop, runs_timers_once_in_order_and_not_when_cancelled)
{
	struct loop *l = loop_create();
	struct count c[3] = { { .loop = l }, { .loop = l }, { .loop = l } };
	struct loop_timer t[3];

	for (size_t i = 0; i < 3; i++)
		loop_timer_init(&t[i], l, on_call, &c[i]);
	loop_timer_cancel(&t[0]);
	cr_assert_eq(loop_timer_start(&t[0], 3600000), ERR_OK);
	cr_assert_eq(loop_timer_start(&t[1], 0), ERR_OK);
	cr_assert_eq(loop_timer_start(&t[2], 0), ERR_OK);
	loop_timer_cancel(&t[2]);
	cr_expect(fixture_turn_until(l, &c[1].done));
	loop_turn(l, 0);
	cr_expect_eq(c[0].calls, 0);
	cr_expect_eq(c[1].calls, 1);
	cr_expect_eq(c[2].calls, 0);
	cr_assert_eq(loop_timer_start(&t[0], 1), ERR_OK, "a restart moves the time");
	cr_expect(fixture_turn_until(l, &c[0].done));
	cr_expect(!t[0].started);
	cr_assert_eq(loop_timer_start(&t[0], UINT64_MAX), ERR_OK, "the end of time is far away");
	loop_turn(l, 0);
	cr_expect_eq(c[0].calls, 1);
	loop_timer_cancel(&t[0]);
	loop_destroy(l);
}

Test(loop, does_not_run_a_timer_that_a_ready_watch_of_its_turn_cancelled)
{
	struct loop *l = loop_create();
	struct count c[2] = { { .loop = l }, { .loop = l } };
	struct loop_watch w;
	struct loop_timer t;
	int pair[2];

	fixture_unix_pair(pair);
	loop_watch_init(&w, l, pair[0], LOOP_READ, on_ready, &c[0]);
	loop_timer_init(&t, l, on_call, &c[1]);
	cr_assert_eq(loop_watch_start(&w), ERR_OK);
	cr_assert_eq(loop_timer_start(&t, 0), ERR_OK);
	c[0].cancel = &t;
	fixture_send(pair[1], "x", 1);
	usleep(10000);
	loop_turn(l, 1000);
	cr_expect_eq(c[0].calls, 1);
	cr_expect_eq(c[1].calls, 0);
	loop_watch_stop(&w);
	close(pair[0]);
	close(pair[1]);
	loop_destroy(l);
}

struct chain {
	struct loop *loop;
	struct loop_deferred d;
	unsigned runs, limit;
};

static void on_chain(void *arg)
{
	struct chain *c = arg;

	if (++c->runs < c->limit)
		loop_defer(c->loop, &c->d, on_chain, c);
}

Test(loop, runs_what_is_deferred_at_the_end_of_the_turn_and_bounds_it)
{
	struct loop *l = loop_create();
	struct chain once = { .loop = l, .limit = 1 };
	struct chain twice = { .loop = l, .limit = 2 };
	struct chain endless = { .loop = l, .limit = 25000 };
	struct chain taken_back = { .loop = l, .limit = 1 };

	loop_deferred_cancel(l, &taken_back.d);
	loop_defer(l, &once.d, on_chain, &once);
	loop_defer(l, &once.d, on_chain, NULL);
	loop_defer(l, &twice.d, on_chain, &twice);
	loop_defer(l, &taken_back.d, on_chain, &taken_back);
	loop_deferred_cancel(l, &taken_back.d);
	cr_expect_eq(once.runs, 0, "never inside the call");
	loop_turn(l, 60000);
	cr_expect_eq(once.runs, 1);
	cr_expect_eq(twice.runs, 2, "what deferred work defers runs in the same turn");
	cr_expect_eq(taken_back.runs, 0);
	cr_expect_eq(loop_turn_count(l), 1);

	loop_defer(l, &endless.d, on_chain, &endless);
	loop_turn(l, 60000);
	cr_expect_eq(endless.runs, 10000, "a chain cannot hold the turn for ever");
	loop_turn(l, 60000);
	loop_turn(l, 60000);
	cr_expect_eq(endless.runs, 25000, "and the next turn does not wait");

	once.limit = 2;
	loop_defer(l, &once.d, on_chain, &once);
	loop_destroy(l);
	cr_expect_eq(once.runs, 2, "destroying runs what is left");
}

enum { SENDERS = 4, MESSAGES = 2000 };

struct posted {
	struct loop_message message;
	struct inbox *inbox; /* borrowed */
	unsigned sender, number;
};

struct inbox {
	struct loop *loop;
	unsigned next[SENDERS];
	unsigned received, misordered;
	bool done;
};

static struct posted all_posted[SENDERS][MESSAGES];

static void on_posted(void *arg)
{
	struct posted *p = arg;
	struct inbox *in = p->inbox;

	if (p->number != in->next[p->sender]++)
		in->misordered++;
	if (++in->received == SENDERS * MESSAGES)
		in->done = true;
}

static void *send_all(void *arg)
{
	struct posted *p = arg;

	for (unsigned i = 0; i < MESSAGES; i++)
		loop_post(p[i].inbox->loop, &p[i].message, on_posted, &p[i]);
	return NULL;
}

Test(loop, receives_from_four_threads_in_each_senders_order)
{
	struct inbox in = { .loop = loop_create() };
	pthread_t threads[SENDERS];

	for (unsigned s = 0; s < SENDERS; s++) {
		for (unsigned i = 0; i < MESSAGES; i++)
			all_posted[s][i] = (struct posted){ .inbox = &in, .sender = s, .number = i };
		cr_assert_eq(pthread_create(&threads[s], NULL, send_all, all_posted[s]), 0);
	}
	cr_expect(fixture_turn_until(in.loop, &in.done));
	for (unsigned s = 0; s < SENDERS; s++)
		pthread_join(threads[s], NULL);
	cr_expect_eq(in.received, SENDERS * MESSAGES);
	cr_expect_eq(in.misordered, 0);
	loop_destroy(in.loop);
}

static void *stop_soon(void *arg)
{
	usleep(1000);
	loop_stop(arg);
	return NULL;
}

Test(loop, stops_from_another_thread_and_can_run_again)
{
	struct loop *l = loop_create();
	pthread_t thread;

	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(pthread_create(&thread, NULL, stop_soon, l), 0);
		loop_run(l);
		pthread_join(thread, NULL);
	}
	loop_stop(l);
	loop_run(l);
	loop_destroy(l);
}

Test(loop, drops_messages_that_it_was_destroyed_before)
{
	struct count c = { 0 };
	struct loop_message m;
	struct loop *l = loop_create();

	loop_post(l, &m, on_call, &c);
	loop_destroy(l);
	loop_destroy(NULL);
	cr_expect_eq(c.calls, 0);
}

Test(loop, refuses_to_watch_what_cannot_be_watched)
{
	struct loop *l = loop_create();
	struct count c = { 0 };
	struct loop_watch w;
	int pair[2];

	fixture_unix_pair(pair);
	close(pair[1]);
	close(pair[0]);
	loop_watch_init(&w, l, pair[0], LOOP_READ, on_ready, &c);
	cr_expect_eq(loop_watch_start(&w), ERR_SYSTEM);
	cr_expect(!w.started);
	cr_expect_null(loop_lend_write(l, pair[0], on_ready, &c));
	loop_destroy(l);
}
