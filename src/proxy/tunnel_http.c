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

/* Refuse a request. What was asked before it is answered first, so that the guest can tell which one is meant. */
static struct relay_filter_answer refuse_request(struct session *s, enum reason why)
{
	if (s->tunnel->http.count == 0)
		return tunnel_refuse(s, why);
	s->tunnel->why = why;
	tunnel_expect(s, false);
	return stall;
}

/* A head was judged and passes: it waits for its answer. */
static void note_asked(struct tunnel_http *h, const struct http1_request *request)
{
	h->asked[(h->first + h->count++) % TUNNEL_PIPELINE_MAX] = (struct tunnel_asked){
		.method = request->method,
		.upgrade = request->asks_upgrade,
		.websocket = request->asks_websocket,
	};
	http1_body_start(&h->up_body, &request->framing);
	h->up_in_body = !http1_body_is_done(&h->up_body);
	h->up_scan = (struct http1_scan){ 0 };
}

static struct relay_filter_answer request_head(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	struct tunnel_http *h = &s->tunnel->http;
	struct http1_request request;
	enum http1_fault fault;
	enum reason why;

	/* Behind an offered upgrade the next bytes may be another protocol: its answer decides. */
	if (h->count == TUNNEL_PIPELINE_MAX || (h->count > 0 && h->asked[(h->first + h->count - 1) % TUNNEL_PIPELINE_MAX].upgrade)) {
		h->up_waits = true;
		return stall;
	}
	switch (http1_request_read(&h->up_scan, bytes, len, &request, &fault)) {
	case PARSED_MORE:
		tunnel_expect(s, len > 0);
		return end && len > 0 ? refuse_request(s, REASON_HTTP_MALFORMED) : hold;
	case PARSED_BAD:
		return refuse_request(s, request_fault_reason(fault));
	case PARSED_OK:
		break;
	}
	why = check_authority(s, &request);
	if (why == REASON_ALLOWED)
		why = tunnel_judge_seen(s);
	if (why != REASON_ALLOWED)
		return refuse_request(s, why);
	note_asked(h, &request);
	tunnel_expect(s, false);
	relay_resume(s->relay, RELAY_DOWN);
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
		return end ? refuse_request(s, REASON_HTTP_FRAMING) : hold;
	case PARSED_BAD:
		return refuse_request(s, REASON_HTTP_FRAMING);
	case PARSED_OK:
		break;
	}
	h->up_in_body = false;
	return n > 0 ? pass(n) : request_head(s, bytes, len, end);
}

struct relay_filter_answer tunnel_http_up(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	struct tunnel_http *h = &s->tunnel->http;

	if (len == 0 && end && h->up_in_body)
		return refuse_request(s, REASON_HTTP_FRAMING);
	if (len == 0)
		return hold;
	if (s->tunnel->why != REASON_ALLOWED)
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
	if (h->count == 0 && s->tunnel->why != REASON_ALLOWED) {
		(void)tunnel_refuse(s, s->tunnel->why);
		return;
	}
	if (h->up_waits) {
		h->up_waits = false;
		relay_resume(s->relay, RELAY_UP);
	}
}

/* 101: through only when it is the websocket that a guest under a ws rule asked for. */
static enum reason check_switch(const struct session *s, const struct tunnel_asked *asked, const struct http1_response *response)
{
	if (!asked->upgrade)
		return REASON_RESPONSE_MALFORMED;
	if (asked->websocket && response->upgrades_to_websocket && (s->verdict.schemes & BIT(SCHEME_WS)) != 0)
		return REASON_ALLOWED;
	return REASON_HTTP_UPGRADE;
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

/* A head was judged and passes: what follows it? */
static struct relay_filter_answer pass_answer(struct session *s, const struct http1_response *response)
{
	struct tunnel_http *h = &s->tunnel->http;

	if (response->status == 101) {
		s->tunnel->stage = TUNNEL_OPAQUE;
		s->seen.scheme = SCHEME_WS;
		relay_resume(s->relay, RELAY_UP);
	} else if (response->is_interim) {
		h->down_scan = (struct http1_scan){ 0 };
	} else {
		h->down_is_last = response->is_last;
		http1_body_start(&h->down_body, &response->framing);
		h->down_in_body = !http1_body_is_done(&h->down_body);
		if (!h->down_in_body)
			answer_done(s);
	}
	return pass(response->len);
}

static struct relay_filter_answer answer_head(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	struct tunnel_http *h = &s->tunnel->http;
	struct tunnel_asked *asked = oldest(h);
	struct http1_response response;
	enum http1_fault fault;
	enum reason why;

	if (asked == NULL || h->down_is_last)
		return tunnel_refuse(s, REASON_RESPONSE_MALFORMED); /* an answer to nothing */
	switch (http1_response_read(&h->down_scan, bytes, len, asked->method, &response, &fault)) {
	case PARSED_MORE:
		return end ? tunnel_refuse(s, REASON_RESPONSE_MALFORMED) : hold;
	case PARSED_BAD:
		return tunnel_refuse(s, REASON_RESPONSE_MALFORMED);
	case PARSED_OK:
		break;
	}
	why = response.status == 101 ? check_switch(s, asked, &response) : check_redirect(s, &response);
	if (why != REASON_ALLOWED)
		return tunnel_refuse(s, why);
	return pass_answer(s, &response);
}

static struct relay_filter_answer answer_body(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	struct tunnel_http *h = &s->tunnel->http;
	size_t n;

	switch (http1_body_advance(&h->down_body, bytes, len, &n)) {
	case PARSED_MORE:
		if (n > 0)
			return pass(n);
		return end ? tunnel_refuse(s, REASON_RESPONSE_MALFORMED) : hold;
	case PARSED_BAD:
		return tunnel_refuse(s, REASON_RESPONSE_MALFORMED);
	case PARSED_OK:
		break;
	}
	answer_done(s);
	return n > 0 ? pass(n) : answer_head(s, bytes, len, end);
}

struct relay_filter_answer tunnel_http_down(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	struct tunnel_http *h = &s->tunnel->http;

	if (len == 0) /* an answer that is cut short ends as it came: the guest sees the end, nothing was added */
		return hold;
	return h->down_in_body ? answer_body(s, bytes, len, end) : answer_head(s, bytes, len, end);
}
