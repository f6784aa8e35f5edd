/*
 * HTTP/1 under http and ws rules: every request of the connection names the host that was asked for, every answer belongs to a request, and
 * every redirect is judged before the guest sees it. Heads are held until judged, bodies stream. Called by tunnel.c's filters.
 */
#include <string.h>

#include "proxy/redirect.h"
#include "proxy/tunnel_internal.h"
#include "proxy/worker.h"
#include "wire/url.h"

static const struct relay_filter_answer hold = { .action = RELAY_HOLD };
static const struct relay_filter_answer stall = { .action = RELAY_STALL };

static struct relay_filter_answer pass(size_t len)
{
	return (struct relay_filter_answer){ .action = RELAY_PASS, .len = len };
}

static struct tunnel_asked *oldest(struct tunnel_http *h)
{
	return h->count == 0 ? NULL : &h->asked[h->first];
}

static bool is_target(const struct session *s, const struct url_host *host)
{
	if (host->port != s->target.port)
		return false;
	if (host->is_address)
		return s->target.kind == TARGET_ADDRESS && addr_equal(&host->addr, &s->target.addr);
	return s->target.kind == TARGET_NAME && dname_equal(&host->name, &s->target.name);
}

/* Host and target of a request: do they name what was asked for, and nothing else? Notes in `seen` what was read. */
static enum reason check_authority(struct session *s, const struct http1_request *request)
{
	struct url_host host;
	struct url url;

	s->seen = (struct judge_stream){ .scheme_known = true, .scheme = SCHEME_HTTP };
	if (!url_read_host(request->host, 80, &host))
		return request->host.len == 0 ? REASON_HTTP_HOST_MISSING : REASON_HTTP_HOST_MISMATCH;
	if (!host.is_address) {
		s->seen.name_known = true;
		s->seen.name = host.name;
	}
	if (!is_target(s, &host))
		return REASON_HTTP_HOST_MISMATCH;
	switch (request->form) {
	case HTTP1_FORM_ORIGIN:
	case HTTP1_FORM_ASTERISK:
		return REASON_ALLOWED;
	case HTTP1_FORM_ABSOLUTE:
		if (url_read(request->target, &url) && url.scheme == SCHEME_HTTP && is_target(s, &url.host))
			return REASON_ALLOWED;
		return REASON_HTTP_TARGET_MISMATCH;
	case HTTP1_FORM_AUTHORITY:
		break;
	}
	return REASON_HTTP_TARGET_MISMATCH; /* CONNECT would open a second tunnel inside this one */
}

static enum reason request_fault_reason(enum http1_fault fault)
{
	switch (fault) {
	case HTTP1_FAULT_FRAMING:
		return REASON_HTTP_FRAMING;
	case HTTP1_FAULT_HOST_MISSING:
		return REASON_HTTP_HOST_MISSING;
	case HTTP1_FAULT_HOST_REPEATED:
		return REASON_HTTP_HOST_MISMATCH;
	case HTTP1_FAULT_MALFORMED:
	case HTTP1_FAULT_NONE:
		break;
	}
	return REASON_HTTP_MALFORMED;
}

struct relay_filter_answer tunnel_http_refuse(struct session *s, enum reason why)
{
	struct tunnel_http *h = &s->tunnel->http;

	if (h->count == 0)
		return tunnel_refuse(s, why, h->down_is_last);
	tunnel_note_refusal(s, why);
	tunnel_expect(s, false);
	return stall;
}

/* Refuse a request whose head has passed already, so that no answer to it may pass. */
static struct relay_filter_answer refuse_body(struct session *s, enum reason why)
{
	struct tunnel_http *h = &s->tunnel->http;

	if (h->count == 0 || (h->count == 1 && h->down_in_body)) /* it was answered, or is being answered */
		return tunnel_refuse(s, why, true);
	h->count--;
	return tunnel_http_refuse(s, why);
}

/* A head was judged and passes: it waits for its answer. */
static void note_asked(struct tunnel_http *h, const struct http1_request *request)
{
	http1_body_start(&h->up_body, &request->framing);
	h->up_in_body = !http1_body_is_done(&h->up_body);
	h->up_scan = (struct http1_scan){ 0 };
	h->asked[(h->first + h->count++) % TUNNEL_PIPELINE_MAX] = (struct tunnel_asked){
		.method = request->method,
		.upgrade = request->asks_upgrade,
		.websocket = request->asks_websocket,
		.awaits_continue = request->expects_continue && h->up_in_body,
	};
}

/* May another request pass before an answer is complete? Behind an offered upgrade the next bytes may be another protocol. */
static bool must_wait(const struct tunnel_http *h)
{
	return h->count == TUNNEL_PIPELINE_MAX ||
	       (h->count > 0 && h->asked[(h->first + h->count - 1) % TUNNEL_PIPELINE_MAX].upgrade);
}

static struct relay_filter_answer request_head(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	struct tunnel_http *h = &s->tunnel->http;
	struct judge_stream before = s->seen;
	struct relay_filter_answer refused;
	struct http1_request request;
	enum http1_fault fault;
	enum reason why;

	if (must_wait(h)) {
		h->up_waits = true;
		return stall;
	}
	switch (http1_request_read(&h->up_scan, bytes, len, &request, &fault)) {
	case PARSED_MORE:
		tunnel_expect(s, true);
		return end ? tunnel_http_refuse(s, REASON_HTTP_MALFORMED) : hold;
	case PARSED_BAD:
		return tunnel_http_refuse(s, request_fault_reason(fault));
	case PARSED_OK:
		break;
	}
	why = check_authority(s, &request);
	if (why == REASON_ALLOWED)
		why = tunnel_judge_seen(s);
	if (why != REASON_ALLOWED) {
		refused = tunnel_http_refuse(s, why);
		s->seen = before; /* what is still being answered is judged by what it asked for */
		return refused;
	}
	note_asked(h, &request);
	if (s->state == SESSION_FIRST_FLIGHT)
		tunnel_open(s, TUNNEL_HTTP);
	tunnel_expect(s, false);
	return pass(request.len);
}

static struct relay_filter_answer request_body(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	struct tunnel_http *h = &s->tunnel->http;
	size_t n;

	switch (http1_body_advance(&h->up_body, bytes, len, &n)) {
	case PARSED_MORE:
		if (n > 0)
			return pass(n);
		return end ? refuse_body(s, REASON_HTTP_FRAMING) : hold;
	case PARSED_BAD:
		return n > 0 ? pass(n) : refuse_body(s, REASON_HTTP_FRAMING);
	case PARSED_OK:
		break;
	}
	h->up_in_body = false;
	return n > 0 ? pass(n) : request_head(s, bytes, len, end);
}

struct relay_filter_answer tunnel_http_up(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	struct tunnel_http *h = &s->tunnel->http;

	if (len == 0) /* a guest may be done sending; a body that it cut short stays cut short */
		return hold;
	if (s->tunnel->why != REASON_ALLOWED || h->up_closed)
		return stall;
	return h->up_in_body ? request_body(s, bytes, len, end) : request_head(s, bytes, len, end);
}

/* An answer is complete: its request is done with, and the guest's way may go on. */
static void answer_done(struct session *s)
{
	struct tunnel_http *h = &s->tunnel->http;

	h->down_in_body = false;
	h->down_scan = (struct http1_scan){ 0 };
	h->first = (uint8_t)((h->first + 1) % TUNNEL_PIPELINE_MAX);
	h->count--;
	if (s->tunnel->why != REASON_ALLOWED) {
		if (h->count == 0)
			tunnel_refuse(s, s->tunnel->why, h->down_is_last);
	} else if (h->up_closed) {
		tunnel_end(s);
	} else if (h->up_waits) {
		h->up_waits = false;
		relay_resume(s->relay, RELAY_UP);
	}
}

/* 101: through only when it is the websocket that a guest under a ws rule asked for. */
static enum reason judge_switch(struct session *s, const struct tunnel_asked *asked, const struct http1_response *response)
{
	struct judge_stream before = s->seen;
	enum reason why;

	if (!asked->upgrade)
		return REASON_RESPONSE_MALFORMED;
	if (!asked->websocket || !response->upgrades_to_websocket || (s->verdict.schemes & BIT(SCHEME_WS)) == 0)
		return REASON_HTTP_UPGRADE;
	s->seen.scheme = SCHEME_WS;
	why = tunnel_judge_seen(s);
	if (why != REASON_ALLOWED)
		s->seen = before;
	return why;
}

/* What the answer would make the guest do next. */
static enum reason check_redirect(struct session *s, const struct http1_response *response)
{
	struct text url;

	if (response->has_location && response->status >= 300 && response->status < 400 && response->status != 304 &&
	    redirect_judge(s, response->location) != REASON_ALLOWED)
		return REASON_REDIRECT_DENIED;
	if (!response->has_refresh)
		return REASON_ALLOWED;
	switch (http1_read_refresh(response->refresh, &url)) {
	case HTTP1_REFRESH_RELOADS:
		return REASON_ALLOWED;
	case HTTP1_REFRESH_LEADS:
		return redirect_judge(s, url);
	case HTTP1_REFRESH_UNCLEAR:
		break;
	}
	text_escape(response->refresh, s->tunnel->redirect_to, sizeof(s->tunnel->redirect_to));
	return REASON_REDIRECT_DENIED;
}

/*
 * A final answer to a guest that waits for 100-continue: it may leave its body out now (RFC 9110 section 10.1.1), and a server may take what
 * comes next for that body or for a request that nobody judged. So this answer is the last.
 */
static bool leaves_body_in_doubt(const struct tunnel_http *h, const struct tunnel_asked *asked)
{
	return asked->awaits_continue && h->count == 1 && h->up_in_body;
}

/* A head was judged and passes: what follows it? */
static struct relay_filter_answer pass_answer(struct session *s, struct tunnel_asked *asked, const struct http1_response *response)
{
	struct tunnel_http *h = &s->tunnel->http;

	if (response->status == 101) {
		s->tunnel->stage = TUNNEL_OPAQUE;
		relay_resume(s->relay, RELAY_UP);
	} else if (response->is_interim) {
		h->down_scan = (struct http1_scan){ 0 };
		if (response->status == 100)
			asked->awaits_continue = false;
	} else {
		h->up_closed = leaves_body_in_doubt(h, asked);
		h->down_is_last = response->is_last;
		http1_body_start(&h->down_body, &response->framing);
		h->down_in_body = !http1_body_is_done(&h->down_body);
		if (!h->down_in_body)
			answer_done(s);
	}
	return pass(response->len);
}

/* Refuse an answer. Words of ours stand in its place, unless some of it has passed or nothing was asked. */
static struct relay_filter_answer refuse_answer(struct session *s, enum reason why)
{
	const struct tunnel_http *h = &s->tunnel->http;

	return tunnel_refuse(s, why, h->down_in_body || h->down_is_last || h->count == 0);
}

static struct relay_filter_answer answer_head(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	struct tunnel_http *h = &s->tunnel->http;
	struct tunnel_asked *asked = oldest(h);
	struct http1_response response;
	enum http1_fault fault;
	enum reason why;

	if (asked == NULL || h->down_is_last)
		return refuse_answer(s, REASON_RESPONSE_MALFORMED); /* an answer to nothing */
	switch (http1_response_read(&h->down_scan, bytes, len, asked->method, &response, &fault)) {
	case PARSED_MORE:
		return end ? refuse_answer(s, REASON_RESPONSE_MALFORMED) : hold;
	case PARSED_BAD:
		return refuse_answer(s, REASON_RESPONSE_MALFORMED);
	case PARSED_OK:
		break;
	}
	why = response.status == 101 ? judge_switch(s, asked, &response) : check_redirect(s, &response);
	if (why != REASON_ALLOWED)
		return refuse_answer(s, why);
	return pass_answer(s, asked, &response);
}

static struct relay_filter_answer answer_body(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	struct tunnel_http *h = &s->tunnel->http;
	size_t n;

	switch (http1_body_advance(&h->down_body, bytes, len, &n)) {
	case PARSED_MORE:
		if (n > 0)
			return pass(n);
		return end ? refuse_answer(s, REASON_RESPONSE_MALFORMED) : hold;
	case PARSED_BAD:
		return n > 0 ? pass(n) : refuse_answer(s, REASON_RESPONSE_MALFORMED);
	case PARSED_OK:
		break;
	}
	answer_done(s);
	return n > 0 ? pass(n) : tunnel_http_down(s, bytes, len, end);
}

/* The server has finished. An answer that it cut short stays cut short: the guest sees the end, and nothing was added. */
static struct relay_filter_answer answers_end(struct session *s)
{
	if (s->tunnel->why != REASON_ALLOWED)
		return tunnel_refuse(s, s->tunnel->why, true);
	return s->tunnel->http.up_closed ? tunnel_end(s) : hold;
}

struct relay_filter_answer tunnel_http_down(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	struct tunnel_http *h = &s->tunnel->http;

	if (s->tunnel->stage != TUNNEL_HTTP)
		return stall;
	if (len == 0)
		return end ? answers_end(s) : hold;
	return h->down_in_body ? answer_body(s, bytes, len, end) : answer_head(s, bytes, len, end);
}
