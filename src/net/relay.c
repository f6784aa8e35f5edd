/*
 * Two half-pipes. Promises order, back-pressure, FIN as FIN and RST as RST, bounded memory and bounded work a wakeup, and
 * that no byte passes a filter unseen. Refuses to know protocols and policy. Called by proxy/tunnel.
 *
 * One way of a relay: what is unsent goes first, then what is held is judged, then the end is passed on, then more is
 * read. advance() is that order; everything else only makes it run.
 */
#include "net/relay.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "net/pump_internal.h"
#include "net/sockopt.h"

#define UNSENT_MAX 262144
#define UNSENT_LIMIT (4u << 20)
#define ROUNDS_PER_WAKEUP 4
#define RATE_MAX (UINT64_MAX / 4000) /* more bytes a second than this is no limit */
#define INJECTED_MAX 65536 /* beyond unsent_max, so that a refusal can be said to a slow reader */

/* What a way needs only while it has a filter or holds bytes. */
struct kept {
	relay_filter_fn *filter; /* NULL: all passes */
	void *filter_arg;        /* borrowed */
	size_t hold_max;
	struct buf held;         /* read and not passed */
	const uint8_t *passed;   /* borrowed while judging: passed, but not yet given to the pump */
	size_t passed_len;
};

struct half {
	struct loop_watch read;   /* on the sender */
	struct loop_watch *write; /* on the receiver; lent while it is blocked */
	struct pump_flow flow;
	struct kept *kept;        /* owned; NULL while nothing of it is needed */
	uint64_t bytes;           /* accepted by the receiver */
	bool any_read;
	bool stalled;             /* reads nothing, judges nothing and does not end */
	bool unjudged;            /* the filter has something to look at: bytes held, or the end */
	bool eof, ended;          /* the sender has finished; and the receiver was told */
	bool bulky;
	bool kicked;              /* advance at the end of the turn */
};

struct relay {
	struct half half[RELAY_WAYS];
	struct pump_worker *worker;   /* borrowed */
	struct metrics *metrics;      /* borrowed */
	struct relay_rate *rate;      /* borrowed; NULL: no limit */
	struct loop_timer *rate_wait; /* owned; NULL until it was needed */
	relay_end_fn *on_end;
	void *arg;                    /* borrowed */
	loop_fn *on_flushed;          /* NULL: nobody waits for flushed_way */
	void *flushed_arg;            /* borrowed */
	uint64_t last_active_ms;
	struct loop_deferred turn_end;
	int guest_fd, origin_fd;      /* borrowed */
	uint32_t unsent_max;
	uint16_t rounds;
	uint8_t flushed_way;          /* enum relay_way */
	uint8_t why;                  /* enum relay_end, once over */
	bool may_splice;
	bool over;                    /* nothing is read any more */
	bool dead;                    /* nor sent */
	bool told;                    /* and the owner knows */
};

_Static_assert(sizeof(struct relay) <= 560, "every open tunnel has one of these");

static void on_turn_end(void *arg);
static void advance(struct relay *r, enum relay_way way);

static struct loop *loop_of(const struct relay *r)
{
	return r->half[RELAY_UP].read.loop;
}

static int source_of(const struct relay *r, enum relay_way way)
{
	return way == RELAY_UP ? r->guest_fd : r->origin_fd;
}

static int sink_of(const struct relay *r, enum relay_way way)
{
	return way == RELAY_UP ? r->origin_fd : r->guest_fd;
}

static relay_filter_fn *filter_of(const struct half *h)
{
	return h->kept == NULL ? NULL : h->kept->filter;
}

static void schedule(struct relay *r)
{
	loop_defer(loop_of(r), &r->turn_end, on_turn_end, r);
}

/* --- ends --- */

static void drop_flow(struct relay *r, struct half *h)
{
	loop_return_write(h->write);
	h->write = NULL;
	pump_flow_drop(r->worker, &h->flow);
}

/* Nothing is read from now on. What has passed still goes out. */
static void stop(struct relay *r, enum relay_end why)
{
	if (r->over)
		return;
	r->over = true;
	r->why = (uint8_t)why;
	if (r->rate_wait != NULL)
		loop_timer_cancel(r->rate_wait);
	for (enum relay_way way = 0; way < RELAY_WAYS; way++)
		loop_watch_stop(&r->half[way].read);
	schedule(r);
}

/* Nothing is read or sent from now on, and both sides will see a reset. */
static void stop_hard(struct relay *r, enum relay_end why)
{
	static _Thread_local struct log_limit limit = { .burst = 1, .interval_ms = 10000 };

	stop(r, why);
	r->dead = true;
	for (enum relay_way way = 0; way < RELAY_WAYS; way++) {
		drop_flow(r, &r->half[way]);
		if (sockopt_reset_on_close(source_of(r, way)) != ERR_OK)
			log_limited(&limit, LOG_LEVEL_ERROR, "relay_cannot_reset errno=%d", errno);
	}
	schedule(r);
}

/* `fd` failed with `error`: one that is reset resets the other, and any failure ends both. */
static void stop_failed(struct relay *r, int fd, int error)
{
	bool is_reset = error == ECONNRESET || error == EPIPE || error == ECONNABORTED || error == ENOTCONN;
	enum relay_end why = RELAY_END_ERROR;

	if (is_reset)
		why = fd == r->guest_fd ? RELAY_END_GUEST_RESET : RELAY_END_ORIGIN_RESET;
	stop_hard(r, why);
}

static void end_half(struct relay *r, enum relay_way way)
{
	struct half *h = &r->half[way];

	if (h->ended)
		return;
	if (shutdown(sink_of(r, way), SHUT_WR) != 0) {
		stop_failed(r, sink_of(r, way), errno);
		return;
	}
	h->ended = true;
	if (r->half[RELAY_UP].ended && r->half[RELAY_DOWN].ended)
		stop(r, RELAY_END_DONE);
}

/* --- what is kept --- */

static struct kept *create_kept(size_t held_max)
{
	struct kept *k = alloc_zeroed(sizeof(*k));

	if (k != NULL)
		buf_init(&k->held, held_max);
	return k;
}

static void free_kept(struct half *h)
{
	if (h->kept == NULL)
		return;
	buf_finish(&h->kept->held);
	alloc_free(h->kept);
	h->kept = NULL;
}

static void trim_kept(struct half *h)
{
	buf_trim(&h->kept->held);
	if (h->kept->filter == NULL && h->kept->held.len == 0)
		free_kept(h);
}

/* --- sending --- */

static void on_writable(void *arg, int fd, unsigned what)
{
	struct relay *r = arg;

	advance(r, fd == r->guest_fd ? RELAY_DOWN : RELAY_UP);
}

static void note_sent(struct relay *r, enum relay_way way, size_t sent)
{
	if (sent == 0)
		return;
	r->half[way].bytes += sent;
	r->last_active_ms = loop_now_ms(loop_of(r));
	metrics_add(r->metrics, way == RELAY_UP ? METRIC_BYTES_UP : METRIC_BYTES_DOWN, sent);
}

static void note_read(struct relay *r, enum relay_way way, size_t len)
{
	if (len == 0)
		return;
	r->half[way].any_read = true;
	r->last_active_ms = loop_now_ms(loop_of(r));
	if (r->rate != NULL) {
		uint64_t cost = (uint64_t)len * 1000;

		r->rate->milli_bytes -= cost < r->rate->milli_bytes ? cost : r->rate->milli_bytes;
	}
}

/* What sending came to; true when nothing is left unsent. */
static bool settle(struct relay *r, enum relay_way way, enum pump_status s, int error)
{
	struct half *h = &r->half[way];

	switch (s) {
	case PUMP_OK:
		loop_return_write(h->write);
		h->write = NULL;
		if (r->on_flushed != NULL)
			schedule(r);
		return true;
	case PUMP_BLOCKED:
		if (h->write == NULL)
			h->write = loop_lend_write(loop_of(r), sink_of(r, way), on_writable, r);
		if (h->write == NULL)
			stop_hard(r, RELAY_END_MEMORY);
		return false;
	case PUMP_SOURCE_FAILED:
		stop_failed(r, source_of(r, way), error);
		return false;
	case PUMP_SINK_FAILED:
		stop_failed(r, sink_of(r, way), error);
		return false;
	case PUMP_NO_MEMORY:
	case PUMP_WAIT:
	case PUMP_END:
	case PUMP_UNFIT:
		break;
	}
	stop_hard(r, RELAY_END_MEMORY);
	return false;
}

static bool flush(struct relay *r, enum relay_way way)
{
	struct half *h = &r->half[way];
	enum pump_status s;
	size_t sent;
	int error;

	if (pump_flow_is_empty(&h->flow))
		return true;
	s = pump_flush(r->worker, &h->flow, sink_of(r, way), &sent);
	error = errno;
	note_sent(r, way, sent);
	return settle(r, way, s, error);
}

/* Send, or keep behind what is unsent. */
static void pass(struct relay *r, enum relay_way way, const uint8_t *bytes, size_t len)
{
	struct half *h = &r->half[way];
	enum pump_status s;
	size_t sent = 0;
	int error;

	if (len == 0 || r->dead)
		return;
	s = pump_copy_write(&h->flow, sink_of(r, way), bytes, len, &sent);
	error = errno;
	note_sent(r, way, sent);
	settle(r, way, s, error);
}

/* --- judging --- */

/* Bytes that pass one after the other go out together. */
static void pass_later(struct kept *k, const uint8_t *bytes, size_t len)
{
	if (k->passed_len == 0)
		k->passed = bytes;
	k->passed_len += len;
}

static void pass_now(struct relay *r, enum relay_way way)
{
	struct kept *k = r->half[way].kept;
	size_t len = k->passed_len;

	k->passed_len = 0;
	pass(r, way, k->passed, len);
}

/* One question to the filter about `len` bytes; how many of them are done with. Clears *again when it is to be asked no more now. */
static size_t ask_filter(struct relay *r, enum relay_way way, const uint8_t *bytes, size_t len, bool *again)
{
	struct half *h = &r->half[way];
	struct kept *k = h->kept;
	struct relay_filter_answer a = k->filter(k->filter_arg, way, bytes, len, h->eof);

	*again = false;
	switch (a.action) {
	case RELAY_PASS:
		if (a.len == 0 || a.len > len)
			break;
		pass_later(k, bytes, a.len);
		*again = true;
		return a.len;
	case RELAY_REPLACE:
		if (a.len == 0 || a.len > len)
			break;
		pass_now(r, way);
		pass(r, way, a.instead, a.instead_len);
		/* What stands in for little may be much: wait until it is gone. */
		*again = pump_flow_is_empty(&h->flow);
		h->unjudged = !*again && a.len < len;
		return a.len;
	case RELAY_OPAQUE:
		pass_later(k, bytes, len);
		k->filter = NULL;
		return len;
	case RELAY_HOLD:
		if (h->eof && len > 0)
			break;
		if (len > k->hold_max)
			stop(r, RELAY_END_HOLD_LIMIT);
		return 0;
	case RELAY_STALL:
		h->stalled = true;
		return 0;
	case RELAY_END:
		break;
	}
	stop(r, RELAY_END_FILTER);
	return 0;
}

/* Let the filter see `bytes`, which are all that is unjudged of this way; how many of them are done with. */
static size_t judge(struct relay *r, enum relay_way way, const uint8_t *bytes, size_t len)
{
	struct half *h = &r->half[way];
	struct kept *k = h->kept;
	bool again = true;
	size_t done = 0;

	h->unjudged = false;
	if (bytes == NULL)
		bytes = (const uint8_t *)""; /* nothing held, but the end to look at */
	if (k->filter == NULL) {
		pass_later(k, bytes, len);
		done = len;
	} else {
		do {
			done += ask_filter(r, way, bytes + done, len - done, &again);
		} while (again && done < len && !r->over);
	}
	pass_now(r, way);
	return done;
}

/* Judge what is held. */
static void judge_held(struct relay *r, enum relay_way way)
{
	struct half *h = &r->half[way];
	struct kept *k = h->kept;

	if (k == NULL) {
		h->unjudged = false;
		return;
	}
	buf_consume(&k->held, judge(r, way, buf_data(&k->held), k->held.len));
	trim_kept(h);
}

/* Judge `len` bytes just read into the scratch buffer: from there when nothing older is held. */
static void judge_read(struct relay *r, enum relay_way way, size_t len)
{
	struct half *h = &r->half[way];
	struct kept *k = h->kept;
	const uint8_t *bytes = r->worker->scratch;
	size_t done = 0;
	bool held_before = k->held.len > 0;

	if (!held_before)
		done = judge(r, way, bytes, len);
	if (!r->over && buf_append(&k->held, bytes + done, len - done) != ERR_OK) {
		stop_hard(r, RELAY_END_MEMORY);
		return;
	}
	if (held_before)
		judge_held(r, way);
	else
		trim_kept(h);
}

/* --- the budget --- */

/* Bytes that may be read now; none: wait *out_wait_ms. */
static size_t allowance(struct relay *r, uint64_t *out_wait_ms)
{
	struct relay_rate *rate = r->rate;
	uint64_t now_ms = loop_now_ms(loop_of(r));
	uint64_t full, least, passed_ms;

	if (rate == NULL || rate->bytes_per_s == 0 || rate->bytes_per_s > RATE_MAX)
		return SIZE_MAX;
	full = rate->bytes_per_s * 1000;
	passed_ms = now_ms > rate->at_ms ? now_ms - rate->at_ms : 0;
	rate->at_ms = now_ms;
	rate->milli_bytes += passed_ms < 1000 ? rate->bytes_per_s * passed_ms : full;
	if (rate->milli_bytes > full)
		rate->milli_bytes = full;
	/* Less than this is not worth a wakeup. */
	least = full / 20 + 1000;
	if (least > full)
		least = full;
	if (least > PUMP_SPLICE_FROM * 1000ULL)
		least = PUMP_SPLICE_FROM * 1000ULL;
	if (rate->milli_bytes >= least)
		return (size_t)(rate->milli_bytes / 1000);
	*out_wait_ms = (least - rate->milli_bytes) / rate->bytes_per_s + 1;
	return 0;
}

static void on_rate_time(void *arg)
{
	struct relay *r = arg;

	for (enum relay_way way = 0; way < RELAY_WAYS; way++)
		advance(r, way);
}

static void wait_for_rate(struct relay *r, struct half *h, uint64_t wait_ms)
{
	loop_watch_stop(&h->read);
	if (r->rate_wait == NULL) {
		r->rate_wait = alloc_zeroed(sizeof(*r->rate_wait));
		if (r->rate_wait == NULL) {
			stop_hard(r, RELAY_END_MEMORY);
			return;
		}
		loop_timer_init(r->rate_wait, loop_of(r), on_rate_time, r);
	}
	if (!r->rate_wait->started && loop_timer_start(r->rate_wait, wait_ms) != ERR_OK)
		stop_hard(r, RELAY_END_MEMORY);
}

/* --- reading --- */

/* What one read came to; true when another may follow at once. `was_full`: it brought as much as it could. */
static bool settle_read(struct relay *r, enum relay_way way, enum pump_status s, bool was_full)
{
	struct half *h = &r->half[way];

	switch (s) {
	case PUMP_WAIT:
		return false;
	case PUMP_END:
		h->eof = true;
		h->unjudged = h->kept != NULL;
		loop_watch_stop(&h->read);
		return true;
	case PUMP_UNFIT:
		h->bulky = false;
		return true;
	default:
		return settle(r, way, s, errno) && was_full;
	}
}

/* These read at most `max` bytes and take them from what is *left for this wakeup. */
static bool read_filtered(struct relay *r, enum relay_way way, size_t max, size_t *left)
{
	size_t len = 0;
	enum pump_status s;

	if (max > r->unsent_max)
		max = r->unsent_max;
	s = pump_copy_read(r->worker, source_of(r, way), max, &len);
	if (s != PUMP_OK)
		return settle_read(r, way, s, false);
	note_read(r, way, len);
	*left -= len < *left ? len : *left;
	metrics_add(r->metrics, METRIC_COPIED, 1);
	judge_read(r, way, len);
	return len == max;
}

static bool read_opaque(struct relay *r, enum relay_way way, size_t max, size_t *left)
{
	struct half *h = &r->half[way];
	bool by_splice = h->bulky && r->may_splice;
	const struct pump_ops *ops = by_splice ? &pump_splice : &pump_copy;
	size_t most = by_splice ? r->worker->pipe_len : r->unsent_max;
	struct pump_moved moved;
	enum pump_status s;
	int error;

	if (max > most)
		max = most;
	s = ops->move(r->worker, &h->flow, source_of(r, way), sink_of(r, way), max, &moved);
	error = errno;
	note_read(r, way, moved.read);
	*left -= moved.read < *left ? moved.read : *left;
	note_sent(r, way, moved.sent);
	if (moved.read > 0) {
		metrics_add(r->metrics, by_splice ? METRIC_SPLICED : METRIC_COPIED, 1);
		h->bulky = moved.read >= (by_splice ? PUMP_SPLICE_FROM / 2 : PUMP_SPLICE_FROM);
	}
	/* It was said to be readable and splice cannot see how: let the other way look. */
	if (s == PUMP_WAIT)
		h->bulky = false;
	errno = error;
	return settle_read(r, way, s, moved.read == max);
}

static bool may_read(const struct relay *r, const struct half *h)
{
	return !r->over && !h->stalled && !h->eof && pump_flow_is_empty(&h->flow);
}

static void advance(struct relay *r, enum relay_way way)
{
	struct half *h = &r->half[way];
	size_t left = (size_t)r->rounds * r->unsent_max;
	bool again = true;

	for (;;) {
		uint64_t wait_ms = 0;
		size_t max;

		if (!flush(r, way) || r->over)
			return;
		if (h->unjudged && !h->stalled) {
			judge_held(r, way);
			continue;
		}
		if (h->stalled)
			return;
		if (h->eof) {
			end_half(r, way);
			return;
		}
		if (!again || left == 0)
			break;
		max = allowance(r, &wait_ms);
		if (max == 0) {
			wait_for_rate(r, h, wait_ms);
			return;
		}
		again = filter_of(h) != NULL ? read_filtered(r, way, max, &left) :
					       read_opaque(r, way, max, &left);
		if (h->write != NULL)
			return; /* blocked: it is known that flushing is of no use yet */
	}
	if (may_read(r, h) && loop_watch_start(&h->read) != ERR_OK)
		stop_hard(r, RELAY_END_MEMORY);
}

static void on_readable(void *arg, int fd, unsigned what)
{
	struct relay *r = arg;
	enum relay_way way = fd == r->guest_fd ? RELAY_UP : RELAY_DOWN;
	struct half *h = &r->half[way];

	/* A way that may not read leaves its watch until it proves to be in the way. */
	if (!may_read(r, h)) {
		loop_watch_stop(&h->read);
		return;
	}
	advance(r, way);
}

/* --- from outside --- */

/* Whoever is called may destroy the relay, so that what is left to do is asked for before. */
static void on_turn_end(void *arg)
{
	struct relay *r = arg;

	for (enum relay_way way = 0; way < RELAY_WAYS; way++) {
		if (r->half[way].kicked) {
			r->half[way].kicked = false;
			advance(r, way);
		}
	}
	if (r->on_flushed != NULL && pump_flow_is_empty(&r->half[r->flushed_way].flow)) {
		loop_fn *on_flushed = r->on_flushed;

		r->on_flushed = NULL;
		schedule(r);
		on_flushed(r->flushed_arg);
		return;
	}
	if (r->over && !r->told) {
		r->told = true;
		r->on_end(r->arg, (enum relay_end)r->why);
	}
}

static enum err init_half(struct relay *r, enum relay_way way, struct loop *loop,
			  const struct relay_way_options *options, void *filter_arg, const uint8_t *first,
			  size_t first_len)
{
	struct half *h = &r->half[way];

	loop_watch_init(&h->read, loop, source_of(r, way), LOOP_READ, on_readable, r);
	h->stalled = options->stalled;
	h->unjudged = h->kicked = first_len > 0;
	if (options->filter != NULL || first_len > 0) {
		h->kept = create_kept(options->hold_max + first_len + PUMP_SCRATCH_LEN);
		if (h->kept == NULL)
			return ERR_NO_MEMORY;
		h->kept->filter = options->filter;
		h->kept->filter_arg = filter_arg;
		h->kept->hold_max = options->hold_max;
		if (buf_append(&h->kept->held, first, first_len) != ERR_OK)
			return ERR_NO_MEMORY;
	}
	note_read(r, way, first_len);
	return h->stalled ? ERR_OK : loop_watch_start(&h->read);
}

enum err relay_start(struct loop *loop, struct pump_worker *worker, struct metrics *metrics, int guest_fd,
		     int origin_fd, const struct relay_options *options, const uint8_t *first,
		     size_t first_len, relay_end_fn *on_end, void *arg, struct relay **out_relay)
{
	size_t unsent_max = options->unsent_max != 0 ? options->unsent_max : UNSENT_MAX;
	unsigned rounds = options->rounds_per_wakeup != 0 ? options->rounds_per_wakeup : ROUNDS_PER_WAKEUP;
	struct relay *r = alloc_zeroed(sizeof(*r));
	enum err e;

	if (r == NULL)
		return ERR_NO_MEMORY;
	r->worker = worker;
	r->metrics = metrics;
	r->rate = options->rate;
	r->on_end = on_end;
	r->arg = arg;
	r->last_active_ms = loop_now_ms(loop);
	r->guest_fd = guest_fd;
	r->origin_fd = origin_fd;
	r->unsent_max = (uint32_t)(unsent_max < UNSENT_LIMIT ? unsent_max : UNSENT_LIMIT);
	r->rounds = (uint16_t)(rounds < UINT16_MAX ? rounds : UINT16_MAX);
	r->may_splice = options->may_splice;
	/* note_read needs the loop of the first half. */
	r->half[RELAY_UP].read.loop = loop;
	e = init_half(r, RELAY_UP, loop, &options->way[RELAY_UP], options->filter_arg, first, first_len);
	if (e == ERR_OK)
		e = init_half(r, RELAY_DOWN, loop, &options->way[RELAY_DOWN], options->filter_arg, NULL, 0);
	if (e != ERR_OK) {
		relay_destroy(r);
		return e;
	}
	if (first_len > 0)
		schedule(r);
	*out_relay = r;
	return ERR_OK;
}

void relay_destroy(struct relay *r)
{
	if (r == NULL)
		return;
	loop_deferred_cancel(loop_of(r), &r->turn_end);
	if (r->rate_wait != NULL)
		loop_timer_cancel(r->rate_wait);
	alloc_free(r->rate_wait);
	for (enum relay_way way = 0; way < RELAY_WAYS; way++) {
		struct half *h = &r->half[way];

		loop_watch_stop(&h->read);
		drop_flow(r, h);
		free_kept(h);
	}
	alloc_free(r);
}

void relay_resume(struct relay *r, enum relay_way way)
{
	struct half *h = &r->half[way];

	if (r->over || !h->stalled)
		return;
	h->stalled = false;
	h->unjudged = h->kept != NULL && (h->kept->held.len > 0 || h->eof);
	h->kicked = true;
	schedule(r);
}

enum err relay_inject(struct relay *r, enum relay_way way, const uint8_t *bytes, size_t len)
{
	struct half *h = &r->half[way];
	size_t unsent = h->flow.unsent == NULL ? 0 : h->flow.unsent->len;

	if (r->dead || h->ended)
		return ERR_CLOSED;
	if (len > INJECTED_MAX || unsent + len > r->unsent_max + INJECTED_MAX)
		return ERR_LIMIT;
	if (h->kept != NULL)
		pass_now(r, way);
	pass(r, way, bytes, len);
	return r->dead ? ERR_CLOSED : ERR_OK;
}

bool relay_is_flushed(const struct relay *r, enum relay_way way)
{
	return pump_flow_is_empty(&r->half[way].flow);
}

void relay_when_flushed(struct relay *r, enum relay_way way, loop_fn *on_flushed, void *arg)
{
	r->on_flushed = on_flushed;
	r->flushed_arg = arg;
	r->flushed_way = (uint8_t)way;
	schedule(r);
}

bool relay_has_filter(const struct relay *r)
{
	return filter_of(&r->half[RELAY_UP]) != NULL || filter_of(&r->half[RELAY_DOWN]) != NULL;
}

void relay_count(const struct relay *r, struct relay_counts *out_counts)
{
	*out_counts = (struct relay_counts){ .last_active_ms = r->last_active_ms };
	for (enum relay_way way = 0; way < RELAY_WAYS; way++) {
		out_counts->bytes[way] = r->half[way].bytes;
		out_counts->ended[way] = r->half[way].ended;
		out_counts->any_read[way] = r->half[way].any_read;
	}
}
