/*
 * Decision records from workers to one descriptor. Promises that a worker never waits, that lines are whole and numbered,
 * that a gap in the numbers is a loss and every loss is counted. Refuses to know what a record says, but for folding
 * repeated denials. Called by daemon: put on any thread, everything else on the main loop.
 */
#include "control/record_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "control/fold_internal.h"

#define BATCH 65536      /* bytes of one write */
#define RETRY_MS 1000    /* after a failed write */
#define FOLD_TICK_MS 1000

/* A record on its way: handed over by a post, then in `waiting`. */
struct handed {
	struct loop_message message;
	struct list_node node;
	struct record_stream *stream; /* borrowed */
	struct record record;
};

struct record_stream {
	struct loop *loop;       /* borrowed */
	struct metrics *metrics; /* borrowed */
	struct record_observer observer;
	size_t queue_max;                  /* records */
	atomic_size_t held;                /* records handed over and not yet encoded */
	atomic_uint_fast64_t lost;         /* dropped ones, each a gap in the numbers */
	atomic_bool has_sink;
	uint64_t encoded;                  /* records given a number */

	struct list waiting;               /* of struct handed, owned */
	struct fold fold;
	struct loop_timer fold_tick;
	struct loop_deferred write_later;

	int fd;                            /* owned; -1: none */
	struct loop_watch *writable;       /* lent while the sink is full */
	struct loop_timer retry;           /* started after an error */
	struct log_limit complaint;
	char batch[BATCH];                 /* whole lines */
	size_t batch_len, written;         /* bytes; `written` may stand inside a line */
};

static void count_dropped(struct record_stream *s, uint64_t n)
{
	atomic_fetch_add_explicit(&s->lost, n, memory_order_relaxed);
	metrics_add(s->metrics, METRIC_RECORDS_DROPPED, n);
}

/* Those that go first when the queue fills: what was allowed, and how it ended. */
static bool is_dispensable(const struct record *r)
{
	return r->event == RECORD_CLOSE ||
	       (r->event == RECORD_DECISION && r->verdict.allow && !r->verdict.would_deny);
}

static size_t room_for_all(const struct record_stream *s)
{
	return s->queue_max - s->queue_max / 4;
}

bool record_stream_has_room(const struct record_stream *s)
{
	return atomic_load_explicit(&s->has_sink, memory_order_relaxed) &&
	       atomic_load_explicit(&s->held, memory_order_relaxed) < room_for_all(s);
}

static void handed_destroy(struct record_stream *s, struct handed *h)
{
	atomic_fetch_sub_explicit(&s->held, 1, memory_order_relaxed);
	alloc_free(h);
}

static size_t count_lines(const char *bytes, size_t len)
{
	size_t lines = 0;
	const char *at = bytes, *end = bytes + len;

	while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
		lines++;
		at++;
	}
	return lines;
}

/* Encode what waits, as much as the batch takes. */
static void fill_batch(struct record_stream *s)
{
	struct list_node *node;

	if (s->written > 0) {
		memmove(s->batch, s->batch + s->written, s->batch_len - s->written);
		s->batch_len -= s->written;
		s->written = 0;
	}
	while (BATCH - s->batch_len >= RECORD_JSON_MAX &&
	       (node = list_pop_front(&s->waiting)) != NULL) {
		struct handed *h = CONTAINER_OF(node, struct handed, node);
		size_t len;

		h->record.sequence =
			++s->encoded + atomic_load_explicit(&s->lost, memory_order_relaxed);
		len = record_json_write(&h->record, &s->observer, s->batch + s->batch_len,
					BATCH - s->batch_len);
		s->batch_len += len;
		if (len == 0)
			metrics_add(s->metrics, METRIC_RECORDS_DROPPED, 1);
		handed_destroy(s, h);
	}
}

static void drop_everything(struct record_stream *s)
{
	struct list_node *node;
	uint64_t lines = count_lines(s->batch + s->written, s->batch_len - s->written);

	/* These have their numbers, so the gap is there already. */
	metrics_add(s->metrics, METRIC_RECORDS_DROPPED, lines);
	s->batch_len = s->written = 0;
	while ((node = list_pop_front(&s->waiting)) != NULL) {
		count_dropped(s, 1);
		handed_destroy(s, CONTAINER_OF(node, struct handed, node));
	}
}

static void stop_waiting(struct record_stream *s)
{
	loop_return_write(s->writable);
	s->writable = NULL;
	loop_timer_cancel(&s->retry);
}

static void close_sink(struct record_stream *s)
{
	stop_waiting(s);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	atomic_store_explicit(&s->has_sink, false, memory_order_relaxed);
}

static void write_batches(struct record_stream *s);

static void on_writable(void *arg, int fd, unsigned what)
{
	struct record_stream *s = arg;

	stop_waiting(s);
	write_batches(s);
}

static void on_retry(void *arg)
{
	write_batches(arg);
}

/* The sink took nothing. A full pipe is waited for, a full disk tried again, and what is gone for good is given up. */
static void on_write_failed(struct record_stream *s, int error)
{
	if (error == EAGAIN) {
		s->writable = loop_lend_write(s->loop, s->fd, on_writable, s);
		if (s->writable != NULL || loop_timer_start(&s->retry, RETRY_MS) == ERR_OK)
			return;
	}
	log_limited(&s->complaint, LOG_LEVEL_ERROR, "records_not_written errno=%d", error);
	if (error != EPIPE && error != EBADF && loop_timer_start(&s->retry, RETRY_MS) == ERR_OK)
		return;
	close_sink(s);
	drop_everything(s);
}

static void write_batches(struct record_stream *s)
{
	if (s->fd < 0) {
		drop_everything(s);
		return;
	}
	while (s->writable == NULL && !s->retry.started && s->fd >= 0) {
		ssize_t n;

		if (s->written == s->batch_len)
			fill_batch(s);
		if (s->batch_len == 0)
			return;
		n = write(s->fd, s->batch + s->written, s->batch_len - s->written);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			on_write_failed(s, n == 0 ? ENOSPC : errno);
			return;
		}
		metrics_add(s->metrics, METRIC_RECORDS_SENT,
			    count_lines(s->batch + s->written, (size_t)n));
		s->written += (size_t)n;
	}
}

static void on_write_later(void *arg)
{
	write_batches(arg);
}

static void enqueue(struct record_stream *s, struct handed *h)
{
	list_push_back(&s->waiting, &h->node);
	loop_defer(s->loop, &s->write_later, on_write_later, s);
}

/* A fold that is over: its last repetition goes out for all of them. */
static void on_folded(void *arg, void *last)
{
	enqueue(arg, last);
}

static void on_fold_tick(void *arg)
{
	struct record_stream *s = arg;

	fold_expire(&s->fold, clock_mono_ms());
	/* Without the timer nothing may stay folded. */
	if (fold_count(&s->fold) > 0 && loop_timer_start(&s->fold_tick, FOLD_TICK_MS) != ERR_OK)
		fold_flush(&s->fold);
}

static void on_handed(void *arg)
{
	struct handed *h = arg;
	struct record_stream *s = h->stream;
	void *replaced = NULL;

	switch (fold_offer(&s->fold, &h->record, h, clock_mono_ms(), &replaced)) {
	case FOLD_PASS:
		enqueue(s, h);
		break;
	case FOLD_KEPT:
		if (replaced != NULL)
			handed_destroy(s, replaced);
		break;
	}
	if (fold_count(&s->fold) > 0 && !s->fold_tick.started &&
	    loop_timer_start(&s->fold_tick, FOLD_TICK_MS) != ERR_OK)
		fold_flush(&s->fold);
}

bool record_stream_put(struct record_stream *s, const struct record *record)
{
	size_t limit = is_dispensable(record) ? room_for_all(s) : s->queue_max;
	struct handed *h = NULL;

	if (atomic_fetch_add_explicit(&s->held, 1, memory_order_relaxed) < limit)
		h = alloc_zeroed(sizeof(*h));
	if (h == NULL) {
		atomic_fetch_sub_explicit(&s->held, 1, memory_order_relaxed);
		count_dropped(s, 1);
		return false;
	}
	h->stream = s;
	h->record = *record;
	loop_post(s->loop, &h->message, on_handed, h);
	return true;
}

enum err record_stream_create(struct loop *loop, struct metrics *metrics,
			      const struct record_observer *observer, size_t queue_max,
			      struct record_stream **out_stream)
{
	struct record_stream *s = alloc_zeroed(sizeof(*s));
	enum err e;

	if (s == NULL)
		return ERR_NO_MEMORY;
	s->loop = loop;
	s->metrics = metrics;
	s->observer = *observer;
	s->queue_max = queue_max;
	s->fd = -1;
	s->complaint = (struct log_limit){ .burst = 1, .interval_ms = 60000 };
	list_init(&s->waiting);
	loop_timer_init(&s->fold_tick, loop, on_fold_tick, s);
	loop_timer_init(&s->retry, loop, on_retry, s);
	/* Folds hold one record each; half of the queue stays free of them. */
	e = fold_init(&s->fold, queue_max / 2, on_folded, s);
	if (e != ERR_OK) {
		alloc_free(s);
		return e;
	}
	*out_stream = s;
	return ERR_OK;
}

static bool prepare_sink(int fd)
{
	struct stat st;
	int flags;

	if (fstat(fd, &st) != 0)
		return false;
	/* The flag belongs to the open file, which the sidecar made for this alone. */
	flags = fcntl(fd, F_GETFL);
	return S_ISREG(st.st_mode) || (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
}

void record_stream_set_sink(struct record_stream *s, int fd)
{
	/* Back to the start of the line that the old sink has a part of. */
	while (s->written > 0 && s->batch[s->written - 1] != '\n')
		s->written--;
	close_sink(s);
	if (fd >= 0 && !prepare_sink(fd)) {
		log_line(LOG_LEVEL_ERROR, "records_sink_refused errno=%d", errno);
		close(fd);
		fd = -1;
	}
	s->fd = fd;
	atomic_store_explicit(&s->has_sink, fd >= 0, memory_order_relaxed);
	loop_defer(s->loop, &s->write_later, on_write_later, s);
}

void record_stream_drain(struct record_stream *s, unsigned wait_ms)
{
	uint64_t until_ms = clock_mono_ms() + wait_ms;

	for (;;) {
		uint64_t now_ms = clock_mono_ms();

		fold_flush(&s->fold);
		write_batches(s);
		if (atomic_load(&s->held) == 0 && s->written == s->batch_len)
			return;
		if (now_ms >= until_ms)
			return;
		loop_turn(s->loop, (unsigned)(until_ms - now_ms < 20 ? until_ms - now_ms : 20));
	}
}

/* Records in the loop's mailbox are ours and only the loop can hand them out. */
static void collect(struct record_stream *s)
{
	size_t in_hand = s->waiting.count + fold_held(&s->fold);

	while (atomic_load(&s->held) > in_hand) {
		loop_turn(s->loop, 0);
		in_hand = s->waiting.count + fold_held(&s->fold);
	}
}

void record_stream_destroy(struct record_stream *s)
{
	if (s == NULL)
		return;
	collect(s);
	fold_flush(&s->fold);
	fold_finish(&s->fold);
	loop_deferred_cancel(s->loop, &s->write_later);
	loop_timer_cancel(&s->fold_tick);
	close_sink(s);
	drop_everything(s);
	alloc_free(s);
}
