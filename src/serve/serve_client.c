/*
 * One connection: bytes in and out through TLS, requests one after the other, streams until somebody goes. Promises that nobody is waited
 * for longer than a deadline and that no more than one fill of lines is kept for a slow reader. Called by serve_http.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net/sockopt.h"
#include "serve/serve_http_internal.h"

#define HEAD_MS 10000    /* handshake and the first head */
#define IDLE_MS 60000    /* between two requests */
#define BODY_MS 30000
#define DRAIN_MS 10000   /* what was filled must be gone by then: 13 KiB/s at least */
#define READ_BYTES 16384
#define SEND_BUFFER_BYTES (256 << 10)
#define LAST_CHUNK "0\r\n\r\n"

static void start_timer(struct serve_client *c, struct loop_timer *timer, uint64_t after_ms)
{
	if (loop_timer_start(timer, after_ms) != ERR_OK)
		log_limited(&c->server->complaint, LOG_LEVEL_ERROR, "timer_not_started name=client");
}

static bool is_reader(const struct serve_client *c)
{
	return c->state == SERVE_CLIENT_STREAM || c->state == SERVE_CLIENT_POLL;
}

static void leave_room(struct serve_client *c)
{
	struct serve_room *room = list_node_is_linked(&c->reader) ? CONTAINER_OF(c->feed.hub, struct serve_room, hub) : NULL;

	if (room != NULL)
		list_remove(&room->readers, &c->reader);
	serve_feed_finish(&c->feed);
	loop_timer_cancel(&c->wait);
}

void serve_client_close(struct serve_client *c)
{
	leave_room(c);
	loop_watch_stop(&c->readable);
	loop_return_write(c->writable);
	loop_timer_cancel(&c->deadline);
	serve_tls_end(c->link);
	close(c->fd);
	if (c->server->listener != NULL)
		listener_wake(c->server->listener);
	c->server->body_bytes -= c->body_len;
	list_remove(&c->server->clients, &c->node);
	buf_finish(&c->in);
	buf_finish(&c->out);
	alloc_free(c);
}

static void on_writable(void *arg, int fd, unsigned what);

/* Wait until the socket takes more. False: it could not be waited for. */
static bool wait_writable(struct serve_client *c)
{
	if (c->writable == NULL)
		c->writable = loop_lend_write(c->server->loop, c->fd, on_writable, c);
	return c->writable != NULL;
}

/* Write what there is. False: the connection is over. */
static bool flush(struct serve_client *c)
{
	bool had = c->out.len > 0;

	while (c->out.len > 0) {
		size_t put = 0;

		switch (serve_tls_write(c->link, buf_data(&c->out), c->out.len, &put)) {
		case SERVE_TLS_MOVED:
			buf_consume(&c->out, put);
			break;
		case SERVE_TLS_WANTS_READ:
			return true;
		case SERVE_TLS_WANTS_WRITE:
			return wait_writable(c);
		case SERVE_TLS_OVER:
			return false;
		}
	}
	if (had && is_reader(c))
		loop_timer_cancel(&c->deadline);
	buf_trim(&c->out);
	return loop_watch_start(&c->readable) == ERR_OK;
}

static enum err add_chunk(struct serve_client *c, const struct buf *lines)
{
	char head[24];
	int len = snprintf(head, sizeof(head), "%zx\r\n", lines->len);
	enum err e = buf_append(&c->out, head, (size_t)len);

	if (e == ERR_OK)
		e = buf_append(&c->out, buf_data(lines), lines->len);
	return e == ERR_OK ? buf_append(&c->out, "\r\n", 2) : e;
}

/* No more lines come: the answer ends, and with it maybe the connection. */
static enum err end_lines(struct serve_client *c)
{
	leave_room(c);
	c->state = SERVE_CLIENT_ANSWER;
	return buf_append(&c->out, LAST_CHUNK, strlen(LAST_CHUNK));
}

/* A poll says what changed and ends with the newest beat, whether it is new or not. */
static enum err fill_poll(struct serve_client *c, struct buf *lines, bool *out_is_over)
{
	bool has_news = serve_feed_has_news(&c->feed);
	enum err e = serve_feed_write(&c->feed, SERVE_FILL_BYTES, lines);

	*out_is_over = (has_news || c->is_poll_over) && !serve_feed_has_news(&c->feed);
	if (e == ERR_OK && *out_is_over && c->feed.beat_nth == c->beats_before)
		e = serve_feed_write_beat(&c->feed, lines);
	return e;
}

/* Put the next lines into an empty `out`. False: the connection is over. */
static bool fill(struct serve_client *c)
{
	static const char bye[] = "{\"f\":\"bye\",\"retry_ms\":100,\"why\":\"slow\"}\n";
	bool is_over = false;
	struct buf lines;
	enum err e;

	buf_init(&lines, SERVE_FILL_BYTES + SERVE_FEED_LINE_MAX);
	e = c->state == SERVE_CLIENT_POLL ? fill_poll(c, &lines, &is_over) : serve_feed_write(&c->feed, SERVE_FILL_BYTES, &lines);
	if (e == ERR_NOT_FOUND) {
		is_over = c->is_last = true;
		e = buf_append(&lines, bye, sizeof(bye) - 1);
	}
	if (e == ERR_OK && lines.len > 0) {
		e = add_chunk(c, &lines);
		start_timer(c, &c->deadline, DRAIN_MS);
	}
	if (e == ERR_OK && is_over)
		e = end_lines(c);
	buf_finish(&lines);
	return e == ERR_OK;
}

/* Read into `in`; *out_got says whether bytes came. False: the connection is over. */
static bool take_bytes(struct serve_client *c, bool *out_got)
{
	size_t want = c->in.len + READ_BYTES > c->in.max ? c->in.max - c->in.len : READ_BYTES, got = 0;
	uint8_t *room = want == 0 ? NULL : buf_reserve(&c->in, want);

	*out_got = false;
	if (room == NULL)
		return want == 0;
	switch (serve_tls_read(c->link, room, want, &got)) {
	case SERVE_TLS_MOVED:
		buf_commit(&c->in, got);
		*out_got = true;
		return true;
	case SERVE_TLS_WANTS_READ:
		return true;
	case SERVE_TLS_WANTS_WRITE:
		/* What is readable meanwhile would call again and again. */
		loop_watch_stop(&c->readable);
		return wait_writable(c);
	default:
		if (serve_tls_refusal(c->link) != NULL)
			log_limited(&c->server->refused, LOG_LEVEL_WARN, "client_refused why=\"%s\"", serve_tls_refusal(c->link));
		return false;
	}
}

/* Take a request from the front of `in`, if it is all there. */
static bool take_head(struct serve_client *c)
{
	struct http1_request request;
	enum http1_fault fault;
	enum parsed parsed;

	if (c->in.len == 0)
		return false;
	parsed = http1_request_read(&c->scan, buf_data(&c->in), c->in.len, &request, &fault);
	if (parsed == PARSED_MORE && c->in.len < SERVE_HEAD_MAX)
		return false;
	if (parsed == PARSED_OK) {
		serve_request_begin(c, &request);
		buf_consume(&c->in, request.len);
	} else {
		serve_request_refuse(c, parsed == PARSED_MORE);
	}
	c->scan = (struct http1_scan){ 0 };
	start_timer(c, &c->deadline, c->state == SERVE_CLIENT_BODY ? BODY_MS : DRAIN_MS);
	return true;
}

static bool take_body(struct serve_client *c)
{
	if (c->in.len < c->body_len)
		return false;
	serve_request_body(c);
	buf_consume(&c->in, c->body_len);
	c->server->body_bytes -= c->body_len;
	c->body_len = 0;
	buf_trim(&c->in);
	c->in.max = SERVE_HEAD_MAX;
	start_timer(c, &c->deadline, DRAIN_MS);
	return true;
}

/* Read until a request can go on. False: the connection is over. */
static bool take(struct serve_client *c, bool *out_moved)
{
	bool is_head = c->state == SERVE_CLIENT_HEAD, got;

	*out_moved = is_head ? take_head(c) : take_body(c);
	if (*out_moved)
		return true;
	if (!take_bytes(c, &got))
		return false;
	*out_moved = got;
	return true;
}

/* The answer is written: another request may come. False: none may. */
static bool end_answer(struct serve_client *c)
{
	if (c->is_last)
		return false;
	c->state = SERVE_CLIENT_HEAD;
	start_timer(c, &c->deadline, IDLE_MS);
	return true;
}

/* Whatever can be done now. False: the connection is over. */
static bool go_on(struct serve_client *c)
{
	for (;;) {
		bool moved = false;

		if (!flush(c))
			return false;
		if (c->out.len > 0)
			return true;
		switch (c->state) {
		case SERVE_CLIENT_HEAD:
		case SERVE_CLIENT_BODY:
			if (!take(c, &moved))
				return false;
			break;
		case SERVE_CLIENT_ANSWER:
			if (!end_answer(c))
				return false;
			moved = true;
			break;
		case SERVE_CLIENT_STREAM:
		case SERVE_CLIENT_POLL:
			if (!fill(c))
				return false;
			moved = c->out.len > 0;
			break;
		}
		if (!moved)
			return true;
	}
}

void serve_client_wake(struct serve_client *c)
{
	if (!go_on(c))
		serve_client_close(c);
}

static void on_writable(void *arg, int fd, unsigned what)
{
	struct serve_client *c = arg;

	loop_return_write(c->writable);
	c->writable = NULL;
	serve_client_wake(c);
}

/* Who reads a stream has nothing to say: an end, or a breach. */
static bool is_still_there(struct serve_client *c)
{
	char bytes[256];
	size_t got;

	return serve_tls_read(c->link, bytes, sizeof(bytes), &got) == SERVE_TLS_WANTS_READ;
}

static void on_readable(void *arg, int fd, unsigned what)
{
	struct serve_client *c = arg;

	/* First what is owed: until that is written, nothing is read. */
	if (c->out.len > 0)
		loop_watch_stop(&c->readable);
	else if (is_reader(c) && !is_still_there(c))
		serve_client_close(c);
	else
		serve_client_wake(c);
}

static void on_late(void *arg)
{
	struct serve_client *c = arg;

	/* What the kernel still holds for it goes, too. */
	if (c->out.len > 0 && sockopt_reset_on_close(c->fd) != ERR_OK)
		log_limited(&c->server->complaint, LOG_LEVEL_DEBUG, "reader_not_reset cell=%s", c->target.name);
	if (is_reader(c))
		log_limited(&c->server->complaint, LOG_LEVEL_WARN, "reader_too_slow cell=%s waiting=%zu", c->target.name, c->out.len);
	serve_client_close(c);
}

static void on_waited(void *arg)
{
	struct serve_client *c = arg;

	c->is_poll_over = true;
	serve_client_wake(c);
}

/* The kernel's share of what a slow reader may hold. */
static bool bound_buffer(int fd)
{
	int bytes = SEND_BUFFER_BYTES;

	return setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) == 0;
}

void serve_client_begin(struct serve_http *s, int fd)
{
	struct serve_client *c = alloc_zeroed(sizeof(*c));

	if (c == NULL || serve_tls_accept(s->tls, fd, &c->link) != ERR_OK) {
		close(fd);
		alloc_free(c);
		return;
	}
	c->server = s;
	c->fd = fd;
	buf_init(&c->in, SERVE_HEAD_MAX);
	buf_init(&c->out, SERVE_OUT_MAX);
	list_push_back(&s->clients, &c->node);
	loop_watch_init(&c->readable, s->loop, fd, LOOP_READ, on_readable, c);
	loop_timer_init(&c->deadline, s->loop, on_late, c);
	loop_timer_init(&c->wait, s->loop, on_waited, c);
	if (!bound_buffer(fd) || sockopt_no_delay(fd) != ERR_OK || sockopt_keepalive(fd, 15, 5, 3) != ERR_OK || loop_watch_start(&c->readable) != ERR_OK ||
	    loop_timer_start(&c->deadline, HEAD_MS) != ERR_OK)
		serve_client_close(c);
}

void serve_client_dismiss(struct serve_client *c)
{
	static const char bye[] = "29\r\n{\"f\":\"bye\",\"retry_ms\":500,\"why\":\"drain\"}\n\r\n" LAST_CHUNK;

	if (is_reader(c) && c->out.len == 0 && buf_append(&c->out, bye, sizeof(bye) - 1) == ERR_OK && !flush(c))
		log_limited(&c->server->complaint, LOG_LEVEL_DEBUG, "reader_gone_first cell=%s", c->target.name);
	serve_client_close(c);
}
