/*
 * The tunnel: success is said, the guest's first bytes are held until they are what the rule says, then both ways flow. Under typed
 * rules nothing passes in either direction before that (ssh alone lets the server speak first). Called by establish.c with a
 * connected origin. tunnel_tls.c and tunnel_http.c hold what those schemes go on to judge.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/sockopt.h"
#include "proxy/tunnel_internal.h"
#include "proxy/worker.h"
#include "proxy/worker_internal.h"
#include "wire/sniff.h"
#include "wire/socks5.h"
#include "wire/tls_hello.h"

#define LAST_WORDS_MS 10000 /* for what passed before a refusal to be taken by the guest */

static bool is_typed(const struct session *s)
{
	return (s->verdict.schemes & ~BIT(SCHEME_TCP)) != 0;
}

bool tunnel_count_held(struct session *s, size_t held)
{
	struct worker *w = s->worker;

	w->hold_bytes = w->hold_bytes - s->held_bytes + held;
	s->held_bytes = held;
	return w->hold_bytes <= w->world->options.hold_bytes_max;
}

void tunnel_expect(struct session *s, bool incomplete)
{
	struct worker *w = s->worker;

	if (incomplete == s->is_incomplete)
		return;
	s->is_incomplete = incomplete;
	if (incomplete)
		s->incomplete_by_ms = loop_now_ms(w->loop) + w->world->options.first_flight_ms;
}

/* What a stream that is neither complete nor acceptable is called, by what its rules expect. */
static enum reason malformed_reason(const struct session *s)
{
	if (s->seen.scheme_known && s->seen.scheme == SCHEME_HTTP)
		return REASON_HTTP_MALFORMED;
	return s->verdict.schemes & BIT(SCHEME_HTTPS) ? REASON_TLS_MALFORMED : REASON_SCHEME_MISMATCH;
}

enum reason tunnel_judge_seen(struct session *s)
{
	struct judge j = session_judge(s);
	enum reason why = session_check_lease(s);
	struct verdict v;

	if (why != REASON_ALLOWED)
		return why;
	s->phase = PHASE_STREAM;
	v = judge_stream(&j, &s->target, &s->verdict, &s->seen);
	if (!v.allow)
		return v.reason;
	s->verdict = v;
	return REASON_ALLOWED;
}

/* --- refusing --- */

/* A body that says why, without a fix: any clear-HTTP origin could forge one (contract section 5). */
static void send_forbidden(struct session *s, enum reason why)
{
	char body[512], answer[1024];
	int len = snprintf(body, sizeof(body),
			   "{\"type\":\"urn:egress:network_destination_denied\",\"title\":\"Refused by the egress proxy\",\"status\":403,"
			   "\"code\":\"network_destination_denied\",\"reason\":\"%s\",\"detail\":\"%s\",\"decision\":\"%s\"}\n",
			   reason_word(why), reason_text(why), s->id);

	len = snprintf(answer, sizeof(answer),
		       "HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n"
		       "Cache-Control: no-store\r\nConnection: close\r\n\r\n%s",
		       len, body);
	handshake_send_reply(s, (const uint8_t *)answer, (size_t)len);
}

static void send_alert(struct session *s, enum reason why)
{
	uint8_t alert[7];
	bool names = why == REASON_TLS_SNI_MISSING || why == REASON_TLS_SNI_MISMATCH;

	handshake_send_reply(s, alert,
			     tls_hello_put_alert(names ? TLS_ALERT_UNRECOGNIZED_NAME : TLS_ALERT_ACCESS_DENIED, alert));
}

/* Lines before the identification are shown by ssh clients (RFC 4253 section 4.2). */
static void send_ssh_line(struct session *s, enum reason why)
{
	char line[256];
	int len = snprintf(line, sizeof(line), "egress: refused (%s): %s; decision %s\r\n", reason_word(why), reason_text(why), s->id);

	handshake_send_reply(s, (const uint8_t *)line, (size_t)len);
}

/* Say why in the words of the protocol that the guest speaks, as far as anything told which one that is. */
static void say_why(struct session *s, enum reason why)
{
	enum scheme scheme = s->seen.scheme_known ? s->seen.scheme : SCHEME_TCP;

	if (!s->seen.scheme_known && (s->verdict.schemes & BIT(SCHEME_HTTPS)) != 0 && why == REASON_TLS_MALFORMED)
		scheme = SCHEME_HTTPS;
	switch (scheme) {
	case SCHEME_HTTPS:
		send_alert(s, why);
		return;
	case SCHEME_HTTP:
		send_forbidden(s, why);
		return;
	case SCHEME_SSH:
		if (s->tunnel == NULL || s->tunnel->stage == TUNNEL_REFUSED)
			send_ssh_line(s, why);
		return;
	case SCHEME_WS:
	case SCHEME_TCP:
	case SCHEME_COUNT:
		return;
	}
}

/* End a tunnel whose guest is still to hear why. */
static void refuse_open(struct session *s, enum reason why)
{
	session_record_decision(s, why);
	session_release_relay(s);
	say_why(s, why);
	session_release_tunnel(s);
	session_linger(s);
}

static void on_flushed(void *arg)
{
	struct session *s = arg;

	refuse_open(s, s->tunnel->why);
}

struct relay_filter_answer tunnel_refuse(struct session *s, enum reason why)
{
	struct tunnel *t = s->tunnel;

	if (t->stage != TUNNEL_REFUSED) {
		t->stage = TUNNEL_REFUSED;
		t->why = why;
		session_enter(s, SESSION_RELAYING, LAST_WORDS_MS);
		relay_when_flushed(s->relay, RELAY_DOWN, on_flushed, s);
	}
	return (struct relay_filter_answer){ .action = RELAY_STALL };
}

/* --- the first flight --- */

/* Tell what the guest's first bytes are. OK: `s->seen` says it, and *out_len how much of them is judged by that. */
static enum parsed read_first_flight(struct session *s, const uint8_t *bytes, size_t len, size_t *out_len, enum reason *out_why)
{
	enum sniff_kind kind;
	enum parsed p = sniff_first_bytes(bytes, len, &kind);

	if (p != PARSED_OK)
		return p;
	*out_len = 0;
	s->seen = (struct judge_stream){ .scheme_known = false };
	switch (kind) {
	case SNIFF_TLS:
		return tunnel_read_tls(s, bytes, len, out_len, out_why);
	case SNIFF_HTTP:
		s->seen.scheme_known = true;
		s->seen.scheme = SCHEME_HTTP;
		return PARSED_OK;
	case SNIFF_SSH:
		s->seen.scheme_known = true;
		s->seen.scheme = SCHEME_SSH;
		return PARSED_OK;
	case SNIFF_OTHER:
	case SNIFF_COUNT:
		break;
	}
	return PARSED_OK;
}

static void open_ways(struct session *s, enum tunnel_stage stage)
{
	s->tunnel->stage = stage;
	tunnel_expect(s, false);
	(void)!tunnel_count_held(s, 0);
	session_enter(s, SESSION_RELAYING, lease_home_lifetime_ms(s->home, &s->worker->world->options));
}

/* The first flight is known for what it is: judge it, and choose what is judged next. */
static struct relay_filter_answer judge_first_flight(struct session *s, const uint8_t *bytes, size_t len, size_t judged, bool end)
{
	enum reason why;

	if (s->seen.scheme_known && s->seen.scheme == SCHEME_HTTP && (s->verdict.schemes & (BIT(SCHEME_HTTP) | BIT(SCHEME_WS))) != 0) {
		open_ways(s, TUNNEL_HTTP); /* the head itself is judged there */
		return tunnel_http_up(s, bytes, len, end);
	}
	why = tunnel_judge_seen(s);
	if (why != REASON_ALLOWED)
		return tunnel_refuse(s, why);
	relay_resume(s->relay, RELAY_DOWN);
	if (s->seen.scheme_known && s->seen.scheme == SCHEME_HTTPS) {
		open_ways(s, TUNNEL_TLS_ANSWER);
		s->tunnel->hello_len = judged;
		return tunnel_tls_up(s, bytes, len, end);
	}
	open_ways(s, TUNNEL_OPAQUE);
	return (struct relay_filter_answer){ .action = RELAY_OPAQUE };
}

static struct relay_filter_answer first_flight(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	enum reason why = REASON_INTERNAL;
	size_t judged = 0;

	if (len == 0 && !end)
		return (struct relay_filter_answer){ .action = RELAY_HOLD };
	if (len == 0) /* it left without a word: no denial */
		return (struct relay_filter_answer){ .action = RELAY_END };
	tunnel_expect(s, true); /* from the first byte on there is one deadline for the whole flight */
	if (!tunnel_count_held(s, len))
		return tunnel_refuse(s, REASON_RESOURCE);
	switch (read_first_flight(s, bytes, len, &judged, &why)) {
	case PARSED_MORE:
		return end ? tunnel_refuse(s, malformed_reason(s)) : (struct relay_filter_answer){ .action = RELAY_HOLD };
	case PARSED_BAD:
		return tunnel_refuse(s, why);
	case PARSED_OK:
		break;
	}
	return judge_first_flight(s, bytes, len, judged, end);
}

/* The filter of both ways of a typed tunnel. */
static struct relay_filter_answer on_bytes(void *arg, enum relay_way way, const uint8_t *bytes, size_t len, bool end)
{
	struct session *s = arg;
	bool up = way == RELAY_UP;

	switch (s->tunnel->stage) {
	case TUNNEL_FIRST_FLIGHT:
		if (up)
			return first_flight(s, bytes, len, end);
		/* Only under ssh is the server's way open before the guest has spoken. */
		return (struct relay_filter_answer){ .action = len > 0 ? RELAY_PASS : RELAY_HOLD, .len = len };
	case TUNNEL_TLS_ANSWER:
	case TUNNEL_TLS_SECOND:
		return up ? tunnel_tls_up(s, bytes, len, end) : tunnel_tls_down(s, bytes, len, end);
	case TUNNEL_HTTP:
		return up ? tunnel_http_up(s, bytes, len, end) : tunnel_http_down(s, bytes, len, end);
	case TUNNEL_OPAQUE:
		return (struct relay_filter_answer){ .action = RELAY_OPAQUE };
	case TUNNEL_REFUSED:
		break;
	}
	return (struct relay_filter_answer){ .action = RELAY_STALL };
}

/* --- start and end --- */

static void on_relay_end(void *arg, enum relay_end why)
{
	struct session *s = arg;
	bool first = s->state == SESSION_FIRST_FLIGHT;
	struct relay_counts counts;

	if (s->tunnel != NULL && s->tunnel->stage == TUNNEL_REFUSED) {
		refuse_open(s, s->tunnel->why);
		return;
	}
	if (s->tunnel != NULL && s->tunnel->why != REASON_ALLOWED) { /* its turn to be told never came */
		session_record_decision(s, s->tunnel->why);
		session_end_silent(s);
		return;
	}
	switch (why) {
	case RELAY_END_DONE:
	case RELAY_END_GUEST_RESET:
	case RELAY_END_FILTER: /* only a guest that left without a word */
		session_finish(s, REASON_ALLOWED);
		return;
	case RELAY_END_ORIGIN_RESET:
		/* A reset behind the guest's own end is how many servers close: nobody lost anything. */
		relay_count(s->relay, &counts);
		session_finish(s, counts.ended[RELAY_UP] ? REASON_ALLOWED : REASON_UPSTREAM_RESET);
		return;
	case RELAY_END_ERROR:
		session_finish(s, REASON_UPSTREAM_RESET);
		return;
	case RELAY_END_HOLD_LIMIT:
		if (first)
			refuse_open(s, malformed_reason(s));
		else
			session_finish(s, REASON_RESPONSE_MALFORMED);
		return;
	case RELAY_END_MEMORY:
		session_finish(s, REASON_RESOURCE);
		return;
	}
}

static bool start_relay(struct session *s, bool typed)
{
	struct worker *w = s->worker;
	struct relay_options options = {
		.rate = &s->home->rate,
		.may_splice = w->world->options.splice,
		.filter_arg = s,
	};
	const uint8_t *first;
	size_t first_len;

	if (typed) {
		s->tunnel = pool_take(&w->tunnels);
		if (s->tunnel == NULL)
			return false;
		options.way[RELAY_UP] = (struct relay_way_options){ .filter = on_bytes, .hold_max = TUNNEL_HOLD_MAX };
		options.way[RELAY_DOWN] = options.way[RELAY_UP];
		options.way[RELAY_DOWN].stalled = s->verdict.schemes != BIT(SCHEME_SSH);
	}
	handshake_surplus(s, &first, &first_len);
	return relay_start(w->loop, &w->pump, w->metrics, s->guest_fd, s->origin_fd, &options, first, first_len, on_relay_end,
			   s, &s->relay) == ERR_OK;
}

void tunnel_start(struct session *s, const struct endpoint *local)
{
	struct worker *w = s->worker;
	const struct world_options *o = &w->world->options;
	bool typed = is_typed(s);
	uint8_t reply[SOCKS5_REPLY_MAX];

	establish_release(s);
	session_record_decision(s, REASON_ALLOWED);
	handshake_send_reply(s, reply, socks5_put_reply(0x00, o->truthful_bound_address ? local : NULL, reply));
	s->was_open = true;
	s->opened_ms = loop_now_ms(w->loop);
	session_end_handshake(s);
	session_enter(s, typed ? SESSION_FIRST_FLIGHT : SESSION_RELAYING, lease_home_lifetime_ms(s->home, o));
	if (!start_relay(s, typed)) {
		session_finish(s, REASON_RESOURCE);
		return;
	}
	handshake_release(s);
}

void tunnel_release(struct session *s)
{
	pool_give(&s->worker->tunnels, s->tunnel);
	s->tunnel = NULL;
}

void tunnel_fill_record(const struct session *s, struct record *record)
{
	memcpy(record->redirect_to, s->tunnel->redirect_to, sizeof(s->tunnel->redirect_to));
}

void tunnel_on_deadline(struct session *s)
{
	if (s->tunnel != NULL && s->tunnel->stage == TUNNEL_REFUSED) {
		session_record_decision(s, s->tunnel->why);
		session_end_silent(s); /* the guest takes nothing: it will not take last words either */
		return;
	}
	session_finish(s, REASON_LIFETIME);
}

/* The guest is silent under a typed rule. Has the origin spoken, or left? True: the session is over. */
static bool look_at_silent(struct session *s, uint64_t now_ms)
{
	uint8_t byte;
	ssize_t got;

	if (s->held_bytes > 0 || s->verdict.schemes == BIT(SCHEME_SSH) ||
	    now_ms - s->opened_ms < s->worker->world->options.first_flight_ms)
		return false;
	got = recv(s->origin_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got > 0)
		refuse_open(s, REASON_FIRST_FLIGHT_TIMEOUT);
	else
		session_finish(s, got == 0 ? REASON_ALLOWED : REASON_UPSTREAM_RESET);
	return true;
}

/* Once both ways are opaque nothing of the tunnel is needed; an idle one shall cost little. */
static void forget_opaque(struct session *s)
{
	if (s->tunnel != NULL && s->tunnel->stage == TUNNEL_OPAQUE && !relay_has_filter(s->relay))
		tunnel_release(s);
}

void tunnel_scan(struct session *s, uint64_t now_ms)
{
	const struct world_options *o = &s->worker->world->options;
	uint64_t limit_ms = lease_home_idle_ms(s->home, o);
	struct relay_counts counts;

	if (s->is_incomplete && now_ms >= s->incomplete_by_ms) {
		refuse_open(s, REASON_FIRST_FLIGHT_TIMEOUT);
		return;
	}
	if (s->state == SESSION_FIRST_FLIGHT && look_at_silent(s, now_ms))
		return;
	forget_opaque(s);
	relay_count(s->relay, &counts);
	if ((counts.ended[RELAY_UP] || counts.ended[RELAY_DOWN]) && o->half_closed_ms < limit_ms)
		limit_ms = o->half_closed_ms;
	if (limit_ms != UINT64_MAX && now_ms - counts.last_active_ms >= limit_ms)
		session_finish(s, REASON_IDLE_TIMEOUT);
}

size_t tunnel_size(void)
{
	return sizeof(struct tunnel);
}
