/*
 * The tunnel: success is said, the guest's first bytes are held until they are what the rule says, then both ways flow. Under typed
 * rules nothing passes in either direction before that. Called by establish.c with a connected origin.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/sockopt.h"
#include "proxy/session.h"
#include "proxy/worker.h"
#include "wire/sniff.h"
#include "wire/socks5.h"
#include "wire/tls_hello.h"

static bool is_typed(const struct session *s)
{
	return (s->verdict.schemes & ~BIT(SCHEME_TCP)) != 0;
}

/* Count what this session holds against the worker's budget for first flights. */
static bool count_held(struct session *s, uint64_t held)
{
	struct worker *w = s->worker;

	w->hold_bytes = w->hold_bytes - s->held_bytes + held;
	s->held_bytes = held;
	return w->hold_bytes <= w->world->options.hold_bytes_max;
}

static struct relay_filter_answer refuse_stream(struct session *s, enum reason why)
{
	s->verdict.allow = false;
	s->verdict.reason = why;
	return (struct relay_filter_answer){ .action = RELAY_END };
}

/* What a stream that is neither complete nor acceptable is called, by what its rules expect. */
static enum reason malformed_reason(const struct session *s)
{
	return s->verdict.schemes & BIT(SCHEME_HTTPS) ? REASON_TLS_MALFORMED : REASON_SCHEME_MISMATCH;
}

/* Read the first flight as TLS. OK: `seen` is filled. */
static enum parsed read_tls(const uint8_t *bytes, size_t len, struct judge_stream *seen, enum reason *out_why)
{
	struct tls_hello hello;
	enum tls_hello_fault fault;
	enum parsed p = tls_hello_read(bytes, len, &hello, &fault);

	if (p == PARSED_BAD)
		*out_why = fault == TLS_HELLO_NOT_TLS ? REASON_SCHEME_MISMATCH : REASON_TLS_MALFORMED;
	if (p != PARSED_OK)
		return p;
	*seen = (struct judge_stream){
		.scheme_known = true,
		.scheme = SCHEME_HTTPS,
		.name_known = hello.sni == TLS_HELLO_SNI_NAME,
		.name_missing = hello.sni == TLS_HELLO_SNI_ABSENT,
		.has_ech = hello.has_ech,
		.tls12_offered = hello.offers_tls12,
	};
	if (seen->name_known)
		seen->name = hello.name;
	return PARSED_OK;
}

/* Tell what the guest's first bytes are. OK: `seen` says it; BAD: *out_why does. */
static enum parsed read_first_flight(const uint8_t *bytes, size_t len, struct judge_stream *seen, enum reason *out_why)
{
	enum sniff_kind kind;
	enum parsed p = sniff_first_bytes(bytes, len, &kind);

	if (p != PARSED_OK)
		return p;
	*seen = (struct judge_stream){ .scheme_known = false };
	switch (kind) {
	case SNIFF_TLS:
		return read_tls(bytes, len, seen, out_why);
	case SNIFF_HTTP:
		seen->scheme_known = true;
		seen->scheme = SCHEME_HTTP;
		return PARSED_OK;
	case SNIFF_SSH:
		seen->scheme_known = true;
		seen->scheme = SCHEME_SSH;
		return PARSED_OK;
	case SNIFF_OTHER:
	case SNIFF_COUNT:
		break;
	}
	return PARSED_OK;
}

static struct relay_filter_answer judge_first_flight(struct session *s)
{
	struct judge j = session_judge(s);
	enum reason why = session_check_lease(s);
	struct verdict v;

	if (why != REASON_ALLOWED)
		return refuse_stream(s, why);
	s->phase = PHASE_STREAM;
	v = judge_stream(&j, &s->target, &s->verdict, &s->seen);
	if (!v.allow)
		return refuse_stream(s, v.reason);
	s->verdict = v;
	(void)count_held(s, 0);
	session_enter(s, SESSION_RELAYING, lease_home_lifetime_ms(s->home, &s->worker->world->options));
	relay_resume(s->relay, RELAY_DOWN);
	return (struct relay_filter_answer){ .action = RELAY_OPAQUE };
}

/* The filter of the guest's way until the first flight is judged. */
static struct relay_filter_answer on_first_flight(void *arg, enum relay_way way, const uint8_t *bytes, size_t len, bool end)
{
	struct session *s = arg;
	enum reason why = REASON_INTERNAL;

	if (len == 0)
		return end ? refuse_stream(s, malformed_reason(s)) : (struct relay_filter_answer){ .action = RELAY_HOLD };
	if (s->held_bytes == 0) /* from the first byte on there is one deadline for the whole flight */
		session_enter(s, SESSION_FIRST_FLIGHT, s->worker->world->options.first_flight_ms);
	if (!count_held(s, len))
		return refuse_stream(s, REASON_RESOURCE);
	switch (read_first_flight(bytes, len, &s->seen, &why)) {
	case PARSED_MORE:
		return end ? refuse_stream(s, malformed_reason(s)) : (struct relay_filter_answer){ .action = RELAY_HOLD };
	case PARSED_BAD:
		return refuse_stream(s, why);
	case PARSED_OK:
		break;
	}
	return judge_first_flight(s);
}

/* Refuse an open tunnel whose guest is still to hear why: in the words of the protocol it speaks. */
static void refuse_open(struct session *s, enum reason why)
{
	uint8_t alert[7];

	session_record_decision(s, why);
	session_release_tunnel(s);
	if (s->seen.scheme_known ? s->seen.scheme == SCHEME_HTTPS : why == REASON_TLS_MALFORMED) {
		size_t len = tls_hello_put_alert(why == REASON_TLS_SNI_MISSING || why == REASON_TLS_SNI_MISMATCH ?
							 TLS_ALERT_UNRECOGNIZED_NAME :
							 TLS_ALERT_ACCESS_DENIED,
						 alert);

		handshake_send_reply(s, alert, len);
	}
	session_linger(s);
}

static void on_relay_end(void *arg, enum relay_end why)
{
	struct session *s = arg;

	switch (why) {
	case RELAY_END_DONE:
		if (s->state == SESSION_FIRST_FLIGHT && s->held_bytes > 0)
			refuse_open(s, malformed_reason(s));
		else
			session_finish(s, REASON_ALLOWED);
		return;
	case RELAY_END_GUEST_RESET:
		session_finish(s, REASON_ALLOWED);
		return;
	case RELAY_END_ORIGIN_RESET:
	case RELAY_END_ERROR:
		session_finish(s, REASON_UPSTREAM_RESET);
		return;
	case RELAY_END_FILTER:
		refuse_open(s, s->verdict.reason);
		return;
	case RELAY_END_HOLD_LIMIT:
		refuse_open(s, malformed_reason(s));
		return;
	case RELAY_END_MEMORY:
		session_finish(s, REASON_RESOURCE);
		return;
	}
}

void tunnel_start(struct session *s, const struct endpoint *local)
{
	struct worker *w = s->worker;
	const struct world_options *o = &w->world->options;
	bool typed = is_typed(s);
	struct relay_options options = {
		.rate = &s->home->rate,
		.may_splice = o->splice,
		.filter_arg = s,
	};
	uint8_t reply[SOCKS5_REPLY_MAX];
	const uint8_t *first;
	size_t first_len;

	if (typed) {
		options.way[RELAY_UP].filter = on_first_flight;
		options.way[RELAY_UP].hold_max = TLS_HELLO_MAX;
		options.way[RELAY_DOWN].stalled = true;
	}
	establish_release(s);
	session_record_decision(s, REASON_ALLOWED);
	handshake_send_reply(s, reply, socks5_put_reply(0x00, o->truthful_bound_address ? local : NULL, reply));
	s->was_open = true;
	s->opened_ms = loop_now_ms(w->loop);
	session_end_handshake(s);
	if (typed) /* a guest that sends nothing is only idle; the deadline changes with its first byte */
		session_enter(s, SESSION_FIRST_FLIGHT, lease_home_idle_ms(s->home, o));
	else
		session_enter(s, SESSION_RELAYING, lease_home_lifetime_ms(s->home, o));
	handshake_surplus(s, &first, &first_len);
	if (relay_start(w->loop, &w->pump, w->metrics, s->guest_fd, s->origin_fd, &options, first, first_len,
			on_relay_end, s, &s->relay) != ERR_OK) {
		session_finish(s, REASON_RESOURCE);
		return;
	}
	handshake_release(s);
}

void tunnel_on_deadline(struct session *s)
{
	if (s->state == SESSION_RELAYING)
		session_finish(s, REASON_LIFETIME);
	else if (s->held_bytes == 0)
		session_finish(s, REASON_IDLE_TIMEOUT);
	else
		refuse_open(s, REASON_FIRST_FLIGHT_TIMEOUT);
}

/* The guest is silent under a typed rule. Has the origin spoken, or left? */
static void look_at_silent(struct session *s, uint64_t now_ms)
{
	uint8_t byte;
	ssize_t got;

	if (s->held_bytes > 0 || now_ms - s->opened_ms < s->worker->world->options.first_flight_ms)
		return;
	got = recv(s->origin_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (got > 0)
		refuse_open(s, REASON_FIRST_FLIGHT_TIMEOUT);
	else if (got == 0)
		session_finish(s, REASON_ALLOWED);
	else if (errno != EAGAIN && errno != EINTR)
		session_finish(s, REASON_UPSTREAM_RESET);
}

void tunnel_scan(struct session *s, uint64_t now_ms)
{
	const struct world_options *o = &s->worker->world->options;
	struct relay_counts counts;
	uint64_t limit_ms;

	if (s->state == SESSION_FIRST_FLIGHT) {
		look_at_silent(s, now_ms);
		return;
	}
	relay_count(s->relay, &counts);
	limit_ms = lease_home_idle_ms(s->home, o);
	if ((counts.ended[RELAY_UP] || counts.ended[RELAY_DOWN]) && o->half_closed_ms < limit_ms)
		limit_ms = o->half_closed_ms;
	if (limit_ms != UINT64_MAX && now_ms - counts.last_active_ms >= limit_ms)
		session_finish(s, REASON_IDLE_TIMEOUT);
}
