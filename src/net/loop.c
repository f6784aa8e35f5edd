/*
 * libevent behind net/loop.h: one base per thread without locks, woken through an eventfd. Promises that work runs in
 * turns (ready watches and timers, then what was deferred) and that no call here calls back before it returns. Refuses
 * to know what is watched. Called by everything above that waits.
 */
#include "net/loop.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/pool.h"

#define DEFERRED_PER_TURN 10000 /* what is deferred beyond it waits for the next turn, which does not sleep */

_Static_assert(sizeof(struct event) <= sizeof(((struct loop_watch *)0)->opaque), "watch too small");
_Static_assert(sizeof(struct event) <= sizeof(((struct loop_timer *)0)->opaque), "timer too small");
_Static_assert(_Alignof(struct event) <= 8, "opaque is aligned too loosely");

struct loop {
	struct event_base *base;  /* owned */
	struct event wake;        /* on wake_fd */
	struct event turn_limit;  /* ends the wait of loop_turn */
	int wake_fd;              /* owned: eventfd, written when the mailbox was empty */
	bool is_fresh;            /* now_ms belongs to this turn */
	uint64_t now_ms;
	struct list deferred;     /* of struct loop_deferred, borrowed */
	struct pool write_watches; /* of struct loop_watch */
	_Atomic(struct loop_message *) mailbox; /* newest first */
	atomic_bool stop_wanted;
	atomic_uint_fast64_t turns;
};

static struct event *event_of(unsigned char *opaque)
{
	return (struct event *)(void *)opaque;
}

static void refresh(struct loop *l)
{
	if (l->is_fresh)
		return;
	l->now_ms = clock_mono_ms();
	l->is_fresh = true;
}

static void wake(struct loop *l)
{
	static const uint64_t one = 1;

	/* EAGAIN means that the counter is full, and then the loop wakes anyway. */
	while (write(l->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* Take all messages at once and put them in order: the mailbox is a stack. */
static struct loop_message *take_messages(struct loop *l)
{
	struct loop_message *newest =
		atomic_exchange_explicit(&l->mailbox, NULL, memory_order_acquire);
	struct loop_message *oldest = NULL;

	while (newest != NULL) {
		struct loop_message *older = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = older;
	}
	return oldest;
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct loop *l = arg;
	struct loop_message *m;
	uint64_t count;
	ssize_t n;

	refresh(l);
	/* Read first: a message pushed after the mailbox was emptied writes again. */
	do {
		n = read(fd, &count, sizeof(count));
	} while (n < 0 && errno == EINTR);
	m = take_messages(l);
	while (m != NULL) {
		struct loop_message *next = m->next;

		m->next = NULL;
		m->on_message(m->arg);
		m = next;
	}
}

/* Nothing to do: being active is what ends the wait. */
static void on_turn_limit(evutil_socket_t fd, short what, void *arg)
{
	refresh(arg);
}

static void on_library_log(int severity, const char *text)
{
	static _Thread_local struct log_limit limit = { .burst = 5, .interval_ms = 10000 };

	if (severity < EVENT_LOG_WARN)
		return;
	log_limited(&limit, LOG_LEVEL_ERROR, "event_library text=\"%s\"", text);
}

static void set_library_log(void)
{
	event_set_log_callback(on_library_log);
}

static struct event_base *create_base(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct event_config *config;
	struct event_base *base = NULL;

	pthread_once(&once, set_library_log);
	config = event_config_new();
	if (config == NULL)
		return NULL;
	if (event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0 &&
	    event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV) == 0 &&
	    event_config_avoid_method(config, "select") == 0 &&
	    event_config_avoid_method(config, "poll") == 0)
		base = event_base_new_with_config(config);
	event_config_free(config);
	return base;
}

struct loop *loop_create(void)
{
	struct loop *l = alloc_zeroed(sizeof(*l));

	if (l == NULL)
		return NULL;
	list_init(&l->deferred);
	pool_init(&l->write_watches, "write_watch", sizeof(struct loop_watch), 0);
	l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (l->wake_fd < 0)
		goto out;
	l->base = create_base();
	if (l->base == NULL)
		goto out;
	if (event_assign(&l->wake, l->base, l->wake_fd, EV_READ | EV_PERSIST, on_wake, l) != 0 ||
	    event_assign(&l->turn_limit, l->base, -1, 0, on_turn_limit, l) != 0 ||
	    event_add(&l->wake, NULL) != 0)
		goto out;
	return l;
out:
	if (l->base != NULL)
		event_base_free(l->base);
	if (l->wake_fd >= 0)
		close(l->wake_fd);
	alloc_free(l);
	return NULL;
}

static void run_deferred(struct loop *l)
{
	for (unsigned n = 0; n < DEFERRED_PER_TURN; n++) {
		struct list_node *node = list_pop_front(&l->deferred);
		struct loop_deferred *d;

		if (node == NULL)
			return;
		d = CONTAINER_OF(node, struct loop_deferred, node);
		d->run(d->arg);
	}
}

void loop_destroy(struct loop *l)
{
	if (l == NULL)
		return;
	while (list_first(&l->deferred) != NULL)
		run_deferred(l);
	event_del(&l->turn_limit);
	event_del(&l->wake);
	event_base_free(l->base);
	close(l->wake_fd);
	pool_finish(&l->write_watches);
	alloc_free(l);
}

static void turn(struct loop *l, int flags)
{
	if (list_first(&l->deferred) != NULL)
		flags |= EVLOOP_NONBLOCK;
	l->is_fresh = false;
	if (event_base_loop(l->base, EVLOOP_ONCE | flags) < 0) {
		/* Going on would spin. A loop that does not turn is seen by livez. */
		log_line(LOG_LEVEL_ERROR, "loop_wait_failed errno=%d", errno);
		atomic_store(&l->stop_wanted, true);
	}
	refresh(l);
	run_deferred(l);
	l->is_fresh = false;
	atomic_fetch_add_explicit(&l->turns, 1, memory_order_relaxed);
}

void loop_run(struct loop *l)
{
	do {
		turn(l, 0);
	} while (!atomic_exchange(&l->stop_wanted, false));
}

static struct timeval timeval_of(uint64_t ms)
{
	return (struct timeval){ .tv_sec = (time_t)(ms / 1000),
				 .tv_usec = (suseconds_t)(ms % 1000 * 1000) };
}

void loop_turn(struct loop *l, unsigned wait_ms)
{
	struct timeval tv = timeval_of(wait_ms);

	if (wait_ms == 0 || event_add(&l->turn_limit, &tv) != 0) {
		turn(l, EVLOOP_NONBLOCK);
		return;
	}
	turn(l, 0);
	event_del(&l->turn_limit);
}

void loop_stop(struct loop *l)
{
	atomic_store(&l->stop_wanted, true);
	wake(l);
}

uint64_t loop_now_ms(const struct loop *l)
{
	return l->is_fresh ? l->now_ms : clock_mono_ms();
}

uint64_t loop_turn_count(const struct loop *l)
{
	return atomic_load_explicit(&l->turns, memory_order_relaxed);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct loop_watch *w = arg;
	unsigned ready = 0;

	refresh(w->loop);
	if ((what & EV_READ) != 0)
		ready |= LOOP_READ;
	if ((what & EV_WRITE) != 0)
		ready |= LOOP_WRITE;
	w->on_ready(w->arg, fd, ready);
}

void loop_watch_init(struct loop_watch *w, struct loop *l, int fd, unsigned what, loop_fd_fn *on_ready,
		     void *arg)
{
	short events = EV_PERSIST;

	assert(fd >= 0 && (what & (LOOP_READ | LOOP_WRITE)) != 0);
	*w = (struct loop_watch){ .loop = l, .on_ready = on_ready, .arg = arg, .fd = fd };
	if ((what & LOOP_READ) != 0)
		events |= EV_READ;
	if ((what & LOOP_WRITE) != 0)
		events |= EV_WRITE;
	/* Fails only for signals mixed with descriptors, which this never asks for. */
	(void)event_assign(event_of(w->opaque), l->base, fd, events, on_event, w);
}

enum err loop_watch_start(struct loop_watch *w)
{
	if (w->started)
		return ERR_OK;
	if (event_add(event_of(w->opaque), NULL) != 0)
		return ERR_SYSTEM;
	w->started = true;
	return ERR_OK;
}

void loop_watch_stop(struct loop_watch *w)
{
	if (!w->started)
		return;
	event_del(event_of(w->opaque));
	w->started = false;
}

struct loop_watch *loop_lend_write(struct loop *l, int fd, loop_fd_fn *on_ready, void *arg)
{
	struct loop_watch *w = pool_take(&l->write_watches);

	if (w == NULL)
		return NULL;
	loop_watch_init(w, l, fd, LOOP_WRITE, on_ready, arg);
	if (loop_watch_start(w) != ERR_OK) {
		pool_give(&l->write_watches, w);
		return NULL;
	}
	return w;
}

void loop_return_write(struct loop_watch *w)
{
	if (w == NULL)
		return;
	loop_watch_stop(w);
	pool_give(&w->loop->write_watches, w);
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
	struct loop_timer *t = arg;

	refresh(t->loop);
	t->started = false;
	t->on_time(t->arg);
}

void loop_timer_init(struct loop_timer *t, struct loop *l, loop_fn *on_time, void *arg)
{
	*t = (struct loop_timer){ .loop = l, .on_time = on_time, .arg = arg };
	(void)event_assign(event_of(t->opaque), l->base, -1, 0, on_timeout, t);
}

enum err loop_timer_start(struct loop_timer *t, uint64_t after_ms)
{
	struct timeval tv = timeval_of(after_ms);

	if (event_add(event_of(t->opaque), &tv) != 0)
		return ERR_SYSTEM;
	t->started = true;
	return ERR_OK;
}

void loop_timer_cancel(struct loop_timer *t)
{
	if (!t->started)
		return;
	event_del(event_of(t->opaque));
	t->started = false;
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
	struct loop_message *before = atomic_load_explicit(&l->mailbox, memory_order_relaxed);

	m->on_message = on_message;
	m->arg = arg;
	do {
		m->next = before;
	} while (!atomic_compare_exchange_weak_explicit(&l->mailbox, &before, m,
							memory_order_release,
							memory_order_relaxed));
	/* `m` may be gone by now. */
	if (before == NULL)
		wake(l);
}
