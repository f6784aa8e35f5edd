/*
 * GET /v1/cells/{cell}/stream: an endless answer of frames, one a line; where something between buffers it, long polls of the same path.
 * Promises order, resumption by cursor and that every doubt about the stream begins it anew. Refuses to know what a document says.
 * Called through frames.h.
 */
#include "store/driver_https.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/log.h"
#include "store/endpoints.h"
#include "store/https_frame.h"

#define CONNECT_MS 3000
#define SILENCE_S 10          /* a beat comes each second */
#define QUIET_MS 4000         /* no frame for so long: another endpoint may speak. Below refuse_after, so that one dead one refuses nobody */
#define QUIET_MAX_MS 30000    /* doubling to this while it is quiet everywhere */
#define FIRST_FRAME_MS 5000   /* connected and mute for so long: something between keeps the stream back */
#define POLL_WAIT "1"         /* seconds, asked of the server */
#define POLL_TOTAL_MS 15000
#define POLL_GAP_MS 100       /* between two polls at least, whatever the server does */
#define POLLS_BEFORE_STREAM 600
#define RELIST_GAP_MS 1000
#define BYE_MAX_MS 5000
#define SNAPSHOT_KEYS_MAX 200000
#define SNAPSHOT_BYTES_MAX (512u << 20)
#define CELL_MAX 64
#define URL_MAX (ENDPOINTS_URL_MAX + 3 * CELL_MAX + HTTPS_FRAME_CURSOR_MAX + 64)

struct driver_https {
	struct frames_source source;
	struct loop *loop;                  /* borrowed */
	const struct frames_events *events; /* borrowed, static */
	void *arg;                          /* borrowed */
	struct endpoints endpoints;
	struct http *http;                  /* owned */
	struct http_request *request;       /* owned; NULL between two */
	char cell[CELL_MAX * 3 + 1];        /* as it stands in the path */
	char cursor[HTTPS_FRAME_CURSOR_MAX + 1]; /* "": from the start */
	struct loop_timer again, mute;
	uint64_t quiet_ms;                  /* how long a stream may say nothing */
	uint64_t first_wait_ms;
	struct loop_deferred settled;
	unsigned polls_left;                /* 0: stream */
	uint64_t asked_at_ms;
	bool is_in_snapshot;
	bool has_frame;                     /* in this answer */
	bool is_unsettled;                  /* something was told since on_settled */
	size_t snapshot_keys, snapshot_bytes;
	struct log_limit complaint;
};

static struct driver_https *of(struct frames_source *s)
{
	return CONTAINER_OF(s, struct driver_https, source);
}

static void ask_after(struct driver_https *d, uint64_t wait_ms)
{
	if (loop_timer_start(&d->again, wait_ms) != ERR_OK)
		log_limited(&d->complaint, LOG_LEVEL_ERROR, "timer_not_started name=again");
}

static void hang_up(struct driver_https *d)
{
	http_cancel(d->request);
	d->request = NULL;
	loop_timer_cancel(&d->mute);
	loop_timer_cancel(&d->again);
}

static void on_settled(void *arg)
{
	struct driver_https *d = arg;

	if (!d->is_unsettled || d->is_in_snapshot)
		return;
	d->is_unsettled = false;
	d->events->on_settled(d->arg);
}

/* The stream is lost. What it still owes of a snapshot is asked for from the start; when, is the caller's to say. */
static void lose(struct driver_https *d, enum frames_break why)
{
	if (why != FRAMES_BREAK_RELIST)
		on_settled(d);
	d->is_unsettled = false;
	hang_up(d);
	if (d->is_in_snapshot || why == FRAMES_BREAK_MALFORMED || why == FRAMES_BREAK_TOO_LONG)
		d->cursor[0] = '\0';
	d->is_in_snapshot = false;
	log_limited(&d->complaint, LOG_LEVEL_WARN, "control_stream_lost why=%s endpoint=%s", frames_break_word(why),
		    endpoints_url(&d->endpoints));
	d->events->on_break(d->arg, why);
}

static void fail(struct driver_https *d, enum frames_break why)
{
	lose(d, why);
	ask_after(d, endpoints_fail(&d->endpoints));
}

static bool is_in_place(const struct driver_https *d, const struct https_frame *frame)
{
	switch (frame->kind) {
	case HTTPS_FRAME_SNAP_BEGIN:
	case HTTPS_FRAME_DEL:
		if (d->is_in_snapshot)
			return false;
		/* fall through */
	case HTTPS_FRAME_PUT:
	case HTTPS_FRAME_MARK:
		/* Changes to what was never listed. */
		return frame->kind == HTTPS_FRAME_SNAP_BEGIN || d->is_in_snapshot || d->cursor[0] != '\0';
	case HTTPS_FRAME_SNAP_END:
		return d->is_in_snapshot;
	default:
		return true;
	}
}

/* Where the stream stands after a frame: before it is told, for the listener may ask to list again. */
static void note(struct driver_https *d, const struct https_frame *frame)
{
	if (frame->kind == HTTPS_FRAME_SNAP_BEGIN) {
		d->is_in_snapshot = true;
		d->snapshot_keys = d->snapshot_bytes = 0;
	} else if (frame->kind == HTTPS_FRAME_SNAP_END) {
		d->is_in_snapshot = false;
	}
	/* Inside a snapshot nothing can be resumed. */
	if (frame->cursor != NULL && !d->is_in_snapshot)
		snprintf(d->cursor, sizeof(d->cursor), "%s", frame->cursor);
}

static void tell(struct driver_https *d, const struct https_frame *frame)
{
	switch (frame->kind) {
	case HTTPS_FRAME_SNAP_BEGIN:
		d->events->on_snap_begin(d->arg);
		break;
	case HTTPS_FRAME_PUT:
		d->events->on_put(d->arg, frame->key, frame->envelope);
		break;
	case HTTPS_FRAME_DEL:
		d->events->on_del(d->arg, frame->key);
		break;
	case HTTPS_FRAME_SNAP_END:
		d->events->on_snap_end(d->arg);
		break;
	default:
		d->events->on_mark(d->arg, frame->envelope);
		break;
	}
}

/* Is a snapshot more than any cell can be? */
static bool is_too_much(struct driver_https *d, const struct https_frame *frame)
{
	if (!d->is_in_snapshot || frame->kind != HTTPS_FRAME_PUT)
		return false;
	d->snapshot_keys++;
	d->snapshot_bytes += frame->envelope.len;
	return d->snapshot_keys > SNAPSHOT_KEYS_MAX || d->snapshot_bytes > SNAPSHOT_BYTES_MAX;
}

static void on_frame(struct driver_https *d, const struct https_frame *frame)
{
	if (!is_in_place(d, frame)) {
		fail(d, FRAMES_BREAK_MALFORMED);
		return;
	}
	if (is_too_much(d, frame)) {
		fail(d, FRAMES_BREAK_TOO_LONG);
		return;
	}
	d->has_frame = true;
	d->quiet_ms = QUIET_MS;
	if (d->polls_left == 0 && loop_timer_start(&d->mute, d->quiet_ms) != ERR_OK)
		log_limited(&d->complaint, LOG_LEVEL_ERROR, "timer_not_started name=mute");
	if (frame->kind == HTTPS_FRAME_BYE) {
		uint64_t wait_ms = frame->retry_ms < BYE_MAX_MS ? frame->retry_ms : BYE_MAX_MS;

		lose(d, FRAMES_BREAK_BYE);
		endpoints_fail(&d->endpoints);
		ask_after(d, endpoints_jitter(wait_ms));
		return;
	}
	endpoints_succeed(&d->endpoints);
	note(d, frame);
	d->is_unsettled = true;
	tell(d, frame);
	loop_defer(d->loop, &d->settled, on_settled, d);
}

static void on_line(void *arg, struct text line)
{
	struct driver_https *d = arg;
	struct https_frame frame;
	struct arena arena;
	enum err e;

	/* An empty line keeps a quiet connection open. */
	if (line.len == 0)
		return;
	arena_init(&arena, 4 * HTTPS_FRAME_LINE_MAX);
	e = https_frame_read(line, &arena, &frame);
	if (e == ERR_OK)
		on_frame(d, &frame);
	else
		fail(d, e == ERR_NO_MEMORY ? FRAMES_BREAK_ERROR : FRAMES_BREAK_MALFORMED);
	arena_finish(&arena);
}

static void poll_instead(struct driver_https *d)
{
	log_line(LOG_LEVEL_WARN, "control_polled why=\"the stream is kept back\" endpoint=%s", endpoints_url(&d->endpoints));
	d->polls_left = POLLS_BEFORE_STREAM;
}

static void on_mute(void *arg)
{
	struct driver_https *d = arg;

	if (d->has_frame || http_status(d->request) == 0) {
		d->quiet_ms = 2 * d->quiet_ms < QUIET_MAX_MS ? 2 * d->quiet_ms : QUIET_MAX_MS;
		fail(d, FRAMES_BREAK_TIMEOUT);
		return;
	}
	poll_instead(d);
	lose(d, FRAMES_BREAK_TIMEOUT);
	ask_after(d, 0);
}

/* A poll that ended as it should: the next one, not at once. */
static void poll_on(struct driver_https *d)
{
	uint64_t took_ms = loop_now_ms(d->loop) - d->asked_at_ms;

	d->polls_left--;
	ask_after(d, took_ms < POLL_GAP_MS ? POLL_GAP_MS - took_ms : 0);
}

static void on_status(struct driver_https *d, unsigned status)
{
	if (status == 410) {
		d->cursor[0] = '\0';
		lose(d, FRAMES_BREAK_COMPACTED);
		ask_after(d, endpoints_jitter(POLL_GAP_MS));
		return;
	}
	/* What does not stream may still answer. */
	if ((status == 406 || status == 501) && d->polls_left == 0)
		poll_instead(d);
	log_limited(&d->complaint, LOG_LEVEL_WARN, "control_refused status=%u cell=%s endpoint=%s%s", status, d->cell, endpoints_url(&d->endpoints),
		    status == 404 ? " why=\"no such cell is served there\"" :
		    status == 403 ? " why=\"our certificate is for another cell\"" :
				    "");
	fail(d, status == 401 || status == 403 ? FRAMES_BREAK_DENIED : FRAMES_BREAK_ERROR);
}

static void on_done(void *arg, const struct http_outcome *outcome)
{
	struct driver_https *d = arg;
	bool is_poll = d->polls_left > 0;

	d->request = NULL;
	loop_timer_cancel(&d->mute);
	if (outcome->end == HTTP_END_TOO_LONG) {
		fail(d, FRAMES_BREAK_TOO_LONG);
	} else if (outcome->end == HTTP_END_TIMEOUT) {
		fail(d, FRAMES_BREAK_TIMEOUT);
	} else if (outcome->end == HTTP_END_FAILED) {
		log_limited(&d->complaint, LOG_LEVEL_WARN, "control_not_reached endpoint=%s error=\"%s\"",
			    endpoints_url(&d->endpoints), outcome->error);
		fail(d, FRAMES_BREAK_CLOSED);
	} else if (outcome->status / 100 != 2) {
		on_status(d, outcome->status);
	} else if (is_poll && d->has_frame && !d->is_in_snapshot) {
		poll_on(d);
	} else {
		fail(d, FRAMES_BREAK_CLOSED);
	}
}

static const struct http_events http_events = { on_line, on_done };

static void on_again(void *arg)
{
	struct driver_https *d = arg;
	bool is_poll = d->polls_left > 0;
	char url[URL_MAX];
	struct http_request_options options = {
		.url = url,
		.headers = { "Accept: application/x-ndjson", is_poll ? "Prefer: wait=" POLL_WAIT : NULL },
		.line_max = HTTPS_FRAME_LINE_MAX,
		.connect_ms = CONNECT_MS,
		.total_ms = is_poll ? POLL_TOTAL_MS : 0,
		.silence_s = SILENCE_S,
	};
	enum err e;

	snprintf(url, sizeof(url), "%s/v1/cells/%s/stream%s%s", endpoints_url(&d->endpoints), d->cell,
		 d->cursor[0] == '\0' ? "" : "?cursor=", d->cursor);
	d->has_frame = false;
	d->asked_at_ms = loop_now_ms(d->loop);
	e = http_start(d->http, &options, &http_events, d, &d->request);
	if (e == ERR_OK && !is_poll)
		e = loop_timer_start(&d->mute, FIRST_FRAME_MS);
	if (e != ERR_OK)
		fail(d, FRAMES_BREAK_ERROR);
}

static enum err on_start(struct frames_source *s, const struct frames_events *events, void *arg)
{
	struct driver_https *d = of(s);

	d->events = events;
	d->arg = arg;
	return loop_timer_start(&d->again, d->first_wait_ms);
}

static void on_relist(struct frames_source *s)
{
	struct driver_https *d = of(s);

	/* It comes to that by itself. */
	if (d->is_in_snapshot || d->cursor[0] == '\0')
		return;
	d->cursor[0] = '\0';
	lose(d, FRAMES_BREAK_RELIST);
	ask_after(d, endpoints_jitter(RELIST_GAP_MS));
}

static void on_close(struct frames_source *s)
{
	struct driver_https *d = of(s);

	hang_up(d);
	loop_deferred_cancel(d->loop, &d->settled);
	http_destroy(d->http);
	endpoints_finish(&d->endpoints);
	alloc_free(d);
}

static const struct frames_ops ops = { on_start, on_relist, on_close };

/* Percent-encode what is not plain in a path (RFC 3986 section 2.3). */
static enum err write_cell(const char *cell, char *out_text)
{
	size_t len = strlen(cell);

	if (len == 0 || len > CELL_MAX)
		return ERR_INVALID;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)cell[i];
		bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || text_is_digit((char)c) || c == '-' || c == '_';

		out_text += snprintf(out_text, 4, is_plain ? "%c" : "%%%02X", c);
	}
	return ERR_OK;
}

enum err driver_https_open(struct loop *loop, const struct driver_https_options *options, struct frames_source **out_source)
{
	struct driver_https *d = alloc_zeroed(sizeof(*d));
	enum err e;

	if (d == NULL)
		return ERR_NO_MEMORY;
	d->source.ops = &ops;
	d->loop = loop;
	d->first_wait_ms = options->first_wait_ms;
	d->quiet_ms = QUIET_MS;
	d->complaint = (struct log_limit){ .burst = 5, .interval_ms = 60000 };
	loop_timer_init(&d->again, loop, on_again, d);
	loop_timer_init(&d->mute, loop, on_mute, d);
	e = write_cell(options->cell, d->cell);
	if (e == ERR_OK)
		e = endpoints_init(&d->endpoints, options->urls, "https://");
	if (e == ERR_OK)
		e = http_create(loop, &options->tls, &d->http);
	if (e != ERR_OK) {
		on_close(&d->source);
		return e;
	}
	*out_source = &d->source;
	return ERR_OK;
}
