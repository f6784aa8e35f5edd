/*
 * From the head of a request to what is done about it: which resource, for whom, and the answer's bytes. Errors are problem documents
 * (RFC 9457) of our own types. Knows no socket. Called by serve_client.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "serve/serve_http_internal.h"

/* kind, status, type, title */
#define PROBLEMS(X)                                                                                        \
	X(MALFORMED, "400 Bad Request", "malformed-request", "The request cannot be understood.")         \
	X(NO_KEY, "400 Bad Request", "idempotency-key", "A batch needs an Idempotency-Key.")              \
	X(NOT_JSON, "400 Bad Request", "not-json", "The report is not JSON.")                             \
	X(NOT_GZIP, "415 Unsupported Media Type", "not-gzip", "A batch is one gzip member of NDJSON.")    \
	X(OTHER_CELL, "403 Forbidden", "other-cell", "The certificate names another cell.")               \
	X(NO_RESOURCE, "404 Not Found", "no-such-resource", "There is no such resource.")                 \
	X(NO_CELL, "404 Not Found", "no-such-cell", "No such cell is served here.")                       \
	X(NOT_KEPT, "404 Not Found", "reports-not-kept", "Reports are not taken here.")                   \
	X(METHOD, "405 Method Not Allowed", "method", "This resource has another method.")                \
	X(CURSOR, "410 Gone", "cursor", "What changed since that cursor is not known; start without.")    \
	X(LENGTH, "411 Length Required", "length", "The body needs a Content-Length.")                    \
	X(TOO_LARGE, "413 Content Too Large", "too-large", "The body is larger than is taken.")           \
	X(HEAD_TOO_LARGE, "431 Request Header Fields Too Large", "head-too-large", "The head is larger than is read.") \
	X(FAILED, "500 Internal Server Error", "failed", "It could not be done.")                         \
	X(BUSY, "503 Service Unavailable", "busy", "Too many bodies come at once; try again.")            \
	X(VERSION, "505 HTTP Version Not Supported", "version", "HTTP/1.1 is spoken here.")               \
	X(FULL, "507 Insufficient Storage", "full", "There is no room for more; try again later.")

enum problem {
#define PROBLEM(kind, status, type, title) PROBLEM_##kind,
	PROBLEMS(PROBLEM)
#undef PROBLEM
};

static const struct {
	const char *status, *type, *title;
} problems[] = {
#define PROBLEM(kind, status, type, title) { status, type, title },
	PROBLEMS(PROBLEM)
#undef PROBLEM
};

static void answer(struct serve_client *c, const char *status, const char *fields, const char *body)
{
	char text[1024];
	int len = snprintf(text, sizeof(text), "HTTP/1.1 %s\r\n%sCache-Control: no-store\r\n%s\r\n%s", status, fields,
			   c->is_last ? "Connection: close\r\n" : "", body);

	c->state = SERVE_CLIENT_ANSWER;
	/* Without memory the connection ends: that is an answer, too. */
	if (buf_append(&c->out, text, (size_t)len) != ERR_OK)
		c->is_last = true;
}

static void refuse(struct serve_client *c, enum problem p)
{
	char body[512], fields[192], peer[SERVE_TLS_NAME_MAX + 1];

	snprintf(body, sizeof(body), "{\"type\":\"urn:egress:problem:%s\",\"title\":\"%s\",\"status\":%.3s}\n", problems[p].type,
		 problems[p].title, problems[p].status);
	snprintf(fields, sizeof(fields), "Content-Type: application/problem+json\r\nContent-Length: %zu\r\n%s", strlen(body),
		 p == PROBLEM_METHOD ? (c->target.route == SERVE_ROUTE_STREAM ? "Allow: GET\r\n" : "Allow: POST\r\n") :
		 p == PROBLEM_FULL || p == PROBLEM_BUSY ? "Retry-After: 30\r\n" :
				       "");
	answer(c, problems[p].status, fields, body);
	serve_tls_peer(c->link, peer);
	/* Of a head that cannot be read the target is that of the request before, or none. */
	log_limited(&c->server->refused, LOG_LEVEL_WARN, "request_refused status=%.3s why=%s client=\"%s\" of=%s", problems[p].status,
		    problems[p].type, peer, c->target.name);
}

/* What follows in the connection is not read: it is in doubt, or nobody wants it. */
static void refuse_and_end(struct serve_client *c, enum problem p)
{
	c->is_last = true;
	refuse(c, p);
}

void serve_request_refuse(struct serve_client *c, bool is_too_long)
{
	refuse_and_end(c, is_too_long ? PROBLEM_HEAD_TOO_LARGE : PROBLEM_MALFORMED);
}

static bool find_field(const struct http1_request *request, const char *name, struct text *out_value)
{
	struct text fields = request->fields, found, value;

	while (http1_next_field(&fields, &found, &value)) {
		if (!text_equal_nocase(found, text_of(name)))
			continue;
		*out_value = value;
		return true;
	}
	return false;
}

/* --- streams --- */

static void say_notice(struct serve_client *c, const char *cell)
{
	char peer[SERVE_TLS_NAME_MAX + 1];

	serve_tls_peer(c->link, peer);
	log_limited(&c->server->notice, LOG_LEVEL_INFO, "reader_began cell=%s client=\"%s\" cursor=%s", cell, peer,
		    c->target.cursor[0] == '\0' ? "-" : c->target.cursor);
}

static void begin_stream(struct serve_client *c, const struct http1_request *request)
{
	struct serve_room *room = serve_http_room(c->server, c->target.name);
	struct text prefer = { "", 0 };
	unsigned wait_s = 0;
	bool is_poll = find_field(request, "Prefer", &prefer) && serve_target_wait(prefer, &wait_s);
	char head[256];
	int len;
	enum err e;

	if (c->server->options.only_named_cells && !serve_tls_names_cell(c->link, c->target.name)) {
		refuse(c, PROBLEM_OTHER_CELL);
		return;
	}
	if (room == NULL) {
		refuse(c, PROBLEM_NO_CELL);
		return;
	}
	e = serve_feed_init(&c->feed, &room->hub, c->target.cursor);
	if (e != ERR_OK) {
		refuse(c, e == ERR_NOT_FOUND ? PROBLEM_CURSOR : PROBLEM_NO_CELL);
		return;
	}
	say_notice(c, c->target.name);
	len = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nCache-Control: no-store\r\n%s"
					   "Transfer-Encoding: chunked\r\n\r\n",
		       c->is_last ? "Connection: close\r\n" : "");
	c->state = is_poll ? SERVE_CLIENT_POLL : SERVE_CLIENT_STREAM;
	c->is_poll_over = wait_s == 0;
	/* A poll that goes on from a cursor was told the beats so far. */
	if (is_poll && c->target.cursor[0] != '\0')
		c->feed.beat_nth = room->hub.beat_nth;
	c->beats_before = c->feed.beat_nth;
	list_push_back(&room->readers, &c->reader);
	if (buf_append(&c->out, head, (size_t)len) == ERR_OK && (!is_poll || loop_timer_start(&c->wait, 1000ull * wait_s) == ERR_OK))
		return;
	/* Without memory the connection ends. */
	c->state = SERVE_CLIENT_ANSWER;
	c->is_last = true;
}

/* --- reports --- */

static bool has_gzip(const struct http1_request *request)
{
	struct text coding;

	return find_field(request, "Content-Encoding", &coding) && text_equal_nocase(coding, text_of("gzip"));
}

static bool has_key(struct serve_client *c, const struct http1_request *request)
{
	struct text value;

	return find_field(request, "Idempotency-Key", &value) && serve_target_key(value, c->key);
}

static void begin_report(struct serve_client *c, const struct http1_request *request)
{
	bool is_status = c->target.route == SERVE_ROUTE_STATUS;
	uint64_t max = is_status ? SERVE_REPORTS_STATUS_MAX : SERVE_REPORTS_BATCH_MAX;

	if (c->server->options.reports == NULL) {
		refuse_and_end(c, PROBLEM_NOT_KEPT);
	} else if (request->framing.kind != HTTP1_LENGTH || request->framing.length == 0) {
		refuse_and_end(c, PROBLEM_LENGTH);
	} else if (request->framing.length > max) {
		refuse_and_end(c, PROBLEM_TOO_LARGE);
	} else if (!is_status && !has_key(c, request)) {
		refuse_and_end(c, PROBLEM_NO_KEY);
	} else if (!is_status && !has_gzip(request)) {
		refuse_and_end(c, PROBLEM_NOT_GZIP);
	} else if (c->server->body_bytes + request->framing.length > SERVE_BODIES_MAX) {
		refuse_and_end(c, PROBLEM_BUSY);
	} else {
		c->body_len = (size_t)request->framing.length;
		c->server->body_bytes += c->body_len;
		c->in.max = c->body_len + SERVE_HEAD_MAX;
		c->state = SERVE_CLIENT_BODY;
		if (request->expects_continue && buf_append(&c->out, "HTTP/1.1 100 Continue\r\n\r\n", 25) != ERR_OK)
			refuse_and_end(c, PROBLEM_FAILED);
	}
}

void serve_request_body(struct serve_client *c)
{
	struct text body = { (const char *)buf_data(&c->in), c->body_len };
	char peer[SERVE_TLS_NAME_MAX + 1];
	bool is_status = c->target.route == SERVE_ROUTE_STATUS;
	struct serve_reports *reports = c->server->options.reports;
	enum err e;

	serve_tls_peer(c->link, peer);
	e = is_status ? serve_reports_status(reports, c->target.name, peer, clock_wall_ms(), body) :
			serve_reports_decisions(reports, c->key, peer, body);
	if (e == ERR_OK || e == ERR_EXISTS)
		answer(c, "204 No Content", "", "");
	else if (e == ERR_INVALID)
		refuse(c, is_status ? PROBLEM_NOT_JSON : PROBLEM_NOT_GZIP);
	else
		refuse(c, e == ERR_LIMIT ? PROBLEM_FULL : PROBLEM_FAILED);
	if (e != ERR_OK && e != ERR_EXISTS)
		log_limited(&c->server->complaint, LOG_LEVEL_WARN, "report_not_kept client=\"%s\" error=\"%s\"", peer, err_text(e));
}

/* --- the head --- */

static bool is_http10(const struct serve_client *c)
{
	const char *at = (const char *)buf_data(&c->in), *end = memchr(at, '\n', c->in.len);

	return end != NULL && end - at > 4 && memcmp(end - 4, "1.0\r", 4) == 0;
}

void serve_request_begin(struct serve_client *c, const struct http1_request *request)
{
	bool is_get = request->method == HTTP1_METHOD_GET, is_post = text_is(request->method_word, "POST");
	enum serve_target_fault fault = request->form != HTTP1_FORM_ORIGIN ? SERVE_TARGET_MALFORMED :
									     serve_target_read(request->target, &c->target);

	c->is_last = request->is_last;
	if (is_http10(c))
		refuse_and_end(c, PROBLEM_VERSION);
	else if (fault == SERVE_TARGET_MALFORMED || (is_get && request->framing.kind != HTTP1_NO_BODY))
		refuse_and_end(c, PROBLEM_MALFORMED);
	else if (fault == SERVE_TARGET_UNKNOWN)
		refuse_and_end(c, PROBLEM_NO_RESOURCE);
	else if (c->target.route == SERVE_ROUTE_STREAM ? !is_get : !is_post)
		refuse_and_end(c, PROBLEM_METHOD);
	else if (c->target.route == SERVE_ROUTE_STREAM)
		begin_stream(c, request);
	else
		begin_report(c, request);
}
