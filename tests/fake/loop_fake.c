/*
 * Watches and timers as plain lists, walked every turn. Promises what net/loop.h promises, and two things more that tests want:
 * a stopped watch or timer is never called, and moments are met in their order. Knows no real descriptor.
 */
#include "loop_fake.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/clock.h"

struct fake_watch {
	struct list_node node;
	unsigned what;
	unsigned ready; /* in this turn, not yet told */
};

struct fake_timer {
	struct list_node node;
	uint64_t at_ms;
};

_Static_assert(sizeof(struct fake_watch) <= sizeof(((struct loop_watch *)0)->opaque), "too small");
_Static_assert(sizeof(struct fake_timer) <= sizeof(((struct loop_timer *)0)->opaque), "too small");

struct loop {
	uint64_t now_ms;
	uint64_t wall_ahead_ms; /* of now_ms */
	uint64_t turns;
	struct list watches, timers, deferred, lent;
	struct loop_message *oldest, *newest; /* the mailbox */
	loop_fake_ready_fn *ready;
	loop_fake_next_fn *next;
	void *script_arg;
	bool stop_wanted;
	bool did_something; /* in the last turn */
};

struct lent_watch {
	struct loop_watch watch;
	struct list_node node;
};

static struct loop *clock_driver; /* whose time base/clock shows */

static struct fake_watch *fake_watch(struct loop_watch *w)
{
	return (struct fake_watch *)(void *)w->opaque;
}

static struct fake_timer *fake_timer(struct loop_timer *t)
{
	return (struct fake_timer *)(void *)t->opaque;
}

static struct loop_watch *watch_at(struct list_node *n)
{
	return CONTAINER_OF(CONTAINER_OF(n, struct fake_watch, node), struct loop_watch, opaque);
}

static struct loop_timer *timer_at(struct list_node *n)
{
	return CONTAINER_OF(CONTAINER_OF(n, struct fake_timer, node), struct loop_timer, opaque);
}

struct loop *loop_create(void)
{
	struct loop *l = alloc_zeroed(sizeof(*l));

	if (l == NULL)
		return NULL;
	l->now_ms = 1000000;
	list_init(&l->watches);
	list_init(&l->timers);
	list_init(&l->deferred);
	list_init(&l->lent);
	return l;
}

static void run_deferred(struct loop *l)
{
	struct list_node *n;

	while ((n = list_pop_front(&l->deferred)) != NULL) {
		struct loop_deferred *d = CONTAINER_OF(n, struct loop_deferred, node);

		l->did_something = true;
		d->run(d->arg);
	}
}

void loop_destroy(struct loop *l)
{
	if (l == NULL)
		return;
	run_deferred(l);
	assert(l->watches.count == 0 && l->lent.count == 0);
	if (clock_driver == l)
		loop_fake_drive_clock(NULL);
	alloc_free(l);
}

/* --- one turn --- */

static void run_messages(struct loop *l)
{
	struct loop_message *m = l->oldest;

	l->oldest = l->newest = NULL;
	while (m != NULL) {
		struct loop_message *next = m->next;

		l->did_something = true;
		m->next = NULL;
		m->on_message(m->arg);
		m = next;
	}
}

static void run_timers(struct loop *l)
{
	for (;;) {
		struct loop_timer *due = NULL;
		struct list_node *n, *next;

		LIST_FOREACH(n, next, &l->timers) {
			struct loop_timer *t = timer_at(n);

			if (fake_timer(t)->at_ms <= l->now_ms &&
			    (due == NULL || fake_timer(t)->at_ms < fake_timer(due)->at_ms))
				due = t;
		}
		if (due == NULL)
			return;
		l->did_something = true;
		list_remove(&l->timers, &fake_timer(due)->node);
		due->started = false;
		due->on_time(due->arg);
	}
}

static struct loop_watch *take_ready(struct loop *l)
{
	struct list_node *n, *next;

	LIST_FOREACH(n, next, &l->watches) {
		if (CONTAINER_OF(n, struct fake_watch, node)->ready != 0)
			return watch_at(n);
	}
	return NULL;
}

static void run_watches(struct loop *l)
{
	struct list_node *n, *next;
	struct loop_watch *w;

	LIST_FOREACH(n, next, &l->watches) {
		w = watch_at(n);
		fake_watch(w)->ready =
			l->ready == NULL ? 0 : l->ready(l->script_arg, w->fd, fake_watch(w)->what);
	}
	while ((w = take_ready(l)) != NULL) {
		unsigned ready = fake_watch(w)->ready;

		l->did_something = true;
		fake_watch(w)->ready = 0;
		w->on_ready(w->arg, w->fd, ready);
	}
}

static void turn(struct loop *l)
{
	l->did_something = false;
	run_messages(l);
	run_watches(l);
	run_timers(l);
	run_deferred(l);
	l->turns++;
}

static uint64_t next_moment_ms(const struct loop *l)
{
	uint64_t at = l->next == NULL ? UINT64_MAX : l->next(l->script_arg);
	struct list_node *n, *next;

	LIST_FOREACH(n, next, &l->timers) {
		uint64_t timer_ms = CONTAINER_OF(n, struct fake_timer, node)->at_ms;

		if (timer_ms < at)
			at = timer_ms;
	}
	return at;
}

bool loop_fake_settle(struct loop *l, unsigned turns_max)
{
	for (unsigned i = 0; i < turns_max; i++) {
		turn(l);
		if (!l->did_something)
			return true;
	}
	return false;
}

bool loop_fake_advance(struct loop *l, uint64_t ms, unsigned turns_max)
{
	uint64_t end_ms = l->now_ms + ms;

	for (unsigned i = 0; i < turns_max; i++) {
		uint64_t at;

		turn(l);
		if (l->did_something)
			continue;
		if (l->now_ms >= end_ms)
			return true;
		at = next_moment_ms(l);
		if (at <= l->now_ms)
			at = l->now_ms + 1;
		l->now_ms = at < end_ms ? at : end_ms;
	}
	return false;
}

/* Wait like the real one: until the first thing that happens. */
void loop_turn(struct loop *l, unsigned wait_ms)
{
	uint64_t end_ms = l->now_ms + wait_ms;

	for (;;) {
		uint64_t at;

		turn(l);
		if (l->did_something || l->now_ms >= end_ms)
			return;
		at = next_moment_ms(l);
		if (at <= l->now_ms)
			at = l->now_ms + 1;
		l->now_ms = at < end_ms ? at : end_ms;
	}
}

void loop_run(struct loop *l)
{
	do {
		loop_turn(l, 1000);
	} while (!l->stop_wanted);
	l->stop_wanted = false;
}

void loop_stop(struct loop *l)
{
	l->stop_wanted = true;
}

uint64_t loop_now_ms(const struct loop *l)
{
	return l->now_ms;
}

uint64_t loop_turn_count(const struct loop *l)
{
	return l->turns;
}

/* --- watches and timers --- */

void loop_watch_init(struct loop_watch *w, struct loop *l, int fd, unsigned what, loop_fd_fn *on_ready, void *arg)
{
	assert(fd >= 0 && what != 0);
	*w = (struct loop_watch){ .loop = l, .on_ready = on_ready, .arg = arg, .fd = fd };
	fake_watch(w)->what = what;
}

enum err loop_watch_start(struct loop_watch *w)
{
	if (w->started)
		return ERR_OK;
	w->started = true;
	fake_watch(w)->ready = 0;
	list_push_back(&w->loop->watches, &fake_watch(w)->node);
	return ERR_OK;
}

void loop_watch_stop(struct loop_watch *w)
{
	if (!w->started)
		return;
	w->started = false;
	list_remove(&w->loop->watches, &fake_watch(w)->node);
}

struct loop_watch *loop_lend_write(struct loop *l, int fd, loop_fd_fn *on_ready, void *arg)
{
	struct lent_watch *lent = alloc_zeroed(sizeof(*lent));

	if (lent == NULL)
		return NULL;
	loop_watch_init(&lent->watch, l, fd, LOOP_WRITE, on_ready, arg);
	if (loop_watch_start(&lent->watch) != ERR_OK) {
		alloc_free(lent);
		return NULL;
	}
	list_push_back(&l->lent, &lent->node);
	return &lent->watch;
}

void loop_return_write(struct loop_watch *w)
{
	struct lent_watch *lent;

	if (w == NULL)
		return;
	lent = CONTAINER_OF(w, struct lent_watch, watch);
	loop_watch_stop(w);
	list_remove(&w->loop->lent, &lent->node);
	alloc_free(lent);
}

void loop_timer_init(struct loop_timer *t, struct loop *l, loop_fn *on_time, void *arg)
{
	*t = (struct loop_timer){ .loop = l, .on_time = on_time, .arg = arg };
}

enum err loop_timer_start(struct loop_timer *t, uint64_t after_ms)
{
	loop_timer_cancel(t);
	fake_timer(t)->at_ms = t->loop->now_ms + after_ms;
	list_push_back(&t->loop->timers, &fake_timer(t)->node);
	t->started = true;
	return ERR_OK;
}

void loop_timer_cancel(struct loop_timer *t)
{
	if (!t->started)
		return;
	t->started = false;
	list_remove(&t->loop->timers, &fake_timer(t)->node);
}

void loop_defer(struct loop *l, struct loop_deferred *d, loop_fn *run, void *arg)
{
	if (list_node_is_linked(&d->node))
		return;
	d->run = run;
	d->arg = arg;
	list_push_back(&l->deferred, &d->node);
}

void loop_deferred_cancel(struct loop *l, struct loop_deferred *d)
{
	list_remove(&l->deferred, &d->node);
}

void loop_post(struct loop *l, struct loop_message *m, loop_fn *on_message, void *arg)
{
	m->on_message = on_message;
	m->arg = arg;
	m->next = NULL;
	if (l->newest == NULL)
		l->oldest = m;
	else
		l->newest->next = m;
	l->newest = m;
}

/* --- for the script --- */

void loop_fake_script(struct loop *l, loop_fake_ready_fn *ready, loop_fake_next_fn *next, void *arg)
{
	l->ready = ready;
	l->next = next;
	l->script_arg = arg;
}

static uint64_t driven_ns(void)
{
	return clock_driver->now_ms * 1000000;
}

static uint64_t driven_wall_ms(void)
{
	return clock_driver->now_ms + clock_driver->wall_ahead_ms;
}

void loop_fake_set_wall_ahead(struct loop *l, uint64_t ahead_ms)
{
	l->wall_ahead_ms = ahead_ms;
}

void loop_fake_drive_clock(struct loop *l)
{
	static const struct clock_source source = { driven_ns, driven_wall_ms };

	clock_driver = l;
	clock_use(l == NULL ? NULL : &source);
}

size_t loop_fake_watch_count(const struct loop *l)
{
	return l->watches.count;
}

size_t loop_fake_timer_count(const struct loop *l)
{
	return l->timers.count;
}

size_t loop_fake_deferred_count(const struct loop *l)
{
	return l->deferred.count;
}
