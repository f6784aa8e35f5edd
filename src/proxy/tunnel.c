/*
 * The tunnel: success is said, the guest's first bytes are held until they are what the rule says, then both ways flow. Under typed
 * rules nothing passes in either direction before that (ssh alone lets the server speak first). Called by establish.c with a
 * connected origin. tunnel_tls.c and tunnel_http.c hold what those schemes go on to judge, tunnel_words.c how a refusal is said.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/sockopt.h"
#include "proxy/tunnel_internal.h"
#include "proxy/worker.h"
#include "proxy/worker_internal.h"
#include "wire/sniff.h"
#include "wire/socks5.h"

#define LEASE_HOLD_SHARE 4  /* no lease holds back more than this part of what its worker may */
#define LAST_WORDS_MS 10000 /* how long the guest may take nothing of what passed before the end */

static bool is_typed(const struct session *s)
{
	return (s->verdict.schemes & ~BIT(SCHEME_TCP)) != 0;
}

/* Keep count of what this way holds back, in the budgets of worker and lease; false: over one of them. */
static bool count_held(struct session *s, enum relay_way way, size_t len)
{
	struct worker *w = s->worker;
	struct tunnel *t = s->tunnel;
	uint64_t max = w->world->options.hold_bytes_max;

	w->hold_bytes = w->hold_bytes - t->held[way] + len;
	s->home->hold_bytes = s->home->hold_bytes - t->held[way] + len;
	s->held_bytes = s->held_bytes - t->held[way] + len;
	t->held[way] = len;
	return w->hold_bytes <= max && s->home->hold_bytes <= max / LEASE_HOLD_SHARE;
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

/* Said, and taken by the guest's socket. */
static void on_said(void *arg)
{
	struct session *s = arg;

	session_finish_heard(s, s->tunnel->why);
}

static void on_passed(void *arg)
{
	struct session *s = arg;

	if (!s->tunnel->is_mute)
		tunnel_say_why(s, s->tunnel->why);
	relay_when_flushed(s->relay, RELAY_DOWN, on_said, s);
}

struct relay_filter_answer tunnel_end(struct session *s)
{
	if (s->tunnel->stage != TUNNEL_ENDING) {
		s->tunnel->stage = TUNNEL_ENDING;
		s->tunnel->ending_since_ms = loop_now_ms(s->worker->loop);
		tunnel_expect(s, false);
		session_keep_deadline(s, SESSION_RELAYING);
		relay_when_flushed(s->relay, RELAY_DOWN, on_passed, s);
	}
	return (struct relay_filter_answer){ .action = RELAY_STALL };
}

void tunnel_note_refusal(struct session *s, enum reason why)
{
	if (s->tunnel->why != REASON_ALLOWED)
		return; /* once: what follows is of a connection that is lost already */
	s->tunnel->why = why;
	session_record_decision(s, why);
}

struct relay_filter_answer tunnel_refuse(struct session *s, enum reason why, bool mute)
{
	if (s->tunnel->stage != TUNNEL_ENDING) {
		tunnel_note_refusal(s, why);
		s->tunnel->is_mute = mute;
	}
	return tunnel_end(s);
}

bool tunnel_is_ending(const struct session *s)
{
	return s->tunnel != NULL && s->tunnel->stage == TUNNEL_ENDING;
}

/* Refuse a first flight; a guest that the server has greeted already (ssh alone) expects no words of ours. */
static struct relay_filter_answer refuse_flight(struct session *s, enum reason why)
{
	struct relay_counts counts;

	relay_count(s->relay, &counts);
	return tunnel_refuse(s, why, counts.bytes[RELAY_DOWN] > 0);
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
		if ((s->verdict.schemes & BIT(SCHEME_HTTPS)) != 0)
			return tunnel_read_tls(s, bytes, len, out_len, out_why);
		s->seen.scheme_known = true; /* no rule asks what the hello says */
		s->seen.scheme = SCHEME_HTTPS;
		return PARSED_OK;
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

void tunnel_open(struct session *s, enum tunnel_stage stage)
{
	s->tunnel->stage = stage;
	tunnel_expect(s, false);
	session_enter(s, SESSION_RELAYING, lease_home_lifetime_ms(s->home, &s->worker->world->options));
	relay_resume(s->relay, RELAY_DOWN);
}

/* The first flight is known for what it is: judge it, and choose what is judged next. */
static struct relay_filter_answer judge_first_flight(struct session *s, const uint8_t *bytes, size_t len, size_t judged, bool end)
{
	enum reason why;

	if (s->seen.scheme_known && s->seen.scheme == SCHEME_HTTP && (s->verdict.schemes & (BIT(SCHEME_HTTP) | BIT(SCHEME_WS))) != 0) {
		s->tunnel->stage = TUNNEL_HTTP; /* the head itself is judged there */
		return tunnel_http_up(s, bytes, len, end);
	}
	why = tunnel_judge_seen(s);
	if (why != REASON_ALLOWED)
		return refuse_flight(s, why);
	if ((s->verdict.schemes & BIT(SCHEME_HTTPS)) != 0) {
		tunnel_open(s, TUNNEL_TLS_ANSWER);
		s->tunnel->hello_len = judged;
		return tunnel_tls_up(s, bytes, len, end);
	}
	tunnel_open(s, TUNNEL_OPAQUE); /* ssh, or what a lease lets through that only reports */
	return (struct relay_filter_answer){ .action = RELAY_OPAQUE };
}

static struct relay_filter_answer first_flight(struct session *s, const uint8_t *bytes, size_t len, bool end)
{
	enum reason why = REASON_INTERNAL;
	size_t judged = 0;

	if (len == 0) /* one that leaves without a word is denied nothing */
		return (struct relay_filter_answer){ .action = end ? RELAY_END : RELAY_HOLD };
	tunnel_expect(s, true); /* from the first byte on there is one deadline for the whole flight */
	switch (read_first_flight(s, bytes, len, &judged, &why)) {
	case PARSED_MORE:
		return end ? refuse_flight(s, malformed_reason(s)) : (struct relay_filter_answer){ .action = RELAY_HOLD };
	case PARSED_BAD:
		return refuse_flight(s, why);
	case PARSED_OK:
		break;
	}
	return judge_first_flight(s, bytes, len, judged, end);
}

static struct relay_filter_answer judge_bytes(struct session *s, enum relay_way way, const uint8_t *bytes, size_t len, bool end)
{
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
	case TUNNEL_ENDING:
		break;
	}
	return (struct relay_filter_answer){ .action = RELAY_STALL };
}

/* The filter of both ways of a typed tunnel. */
static struct relay_filter_answer on_bytes(void *arg, enum relay_way way, const uint8_t *bytes, size_t len, bool end)
{
	struct session *s = arg;
	struct relay_filter_answer answer = judge_bytes(s, way, bytes, len, end);
	bool keeps = answer.action == RELAY_HOLD || answer.action == RELAY_STALL;

	if (!count_held(s, way, keeps ? len : 0) && keeps && s->tunnel->stage != TUNNEL_ENDING)
		return tunnel_refuse(s, REASON_RESOURCE, s->tunnel->stage != TUNNEL_FIRST_FLIGHT);
	return answer;
}

/* --- start and end --- */

static void on_relay_end(void *arg, enum relay_end why)
{
	struct session *s = arg;
	struct relay_counts counts;

	if (s->tunnel != NULL && s->tunnel->why != REASON_ALLOWED) { /* nobody is left to hear it */
		session_finish(s, s->tunnel->why);
		return;
	}
	switch (why) {
	case RELAY_END_DONE:
	case RELAY_END_GUEST_RESET:
	case RELAY_END_FILTER: /* only a guest that left without a word, or in the middle of one */
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
	case RELAY_END_HOLD_LIMIT: /* every parser gives up earlier */
		session_finish(s, REASON_INTERNAL);
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
	session_finish(s, tunnel_is_ending(s) ? s->tunnel->why : REASON_LIFETIME);
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
		tunnel_refuse(s, REASON_FIRST_FLIGHT_TIMEOUT, true);
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

/* A flight or head that has begun is not complete in time. */
static void refuse_late(struct session *s)
{
	tunnel_expect(s, false);
	if (s->tunnel->stage == TUNNEL_HTTP)
		tunnel_http_refuse(s, REASON_FIRST_FLIGHT_TIMEOUT);
	else
		refuse_flight(s, REASON_FIRST_FLIGHT_TIMEOUT);
}

/* A guest that does not take what passed will not take last words either. */
static void scan_ending(struct session *s, uint64_t now_ms)
{
	uint64_t since_ms = s->tunnel->ending_since_ms;
	struct relay_counts counts;

	relay_count(s->relay, &counts);
	if (counts.last_active_ms > since_ms)
		since_ms = counts.last_active_ms;
	if (now_ms - since_ms >= LAST_WORDS_MS)
		session_finish(s, s->tunnel->why);
}

void tunnel_scan(struct session *s, uint64_t now_ms)
{
	const struct world_options *o = &s->worker->world->options;
	uint64_t limit_ms = lease_home_idle_ms(s->home, o);
	struct relay_counts counts;

	if (tunnel_is_ending(s)) {
		scan_ending(s, now_ms);
		return;
	}
	if (s->is_incomplete && now_ms >= s->incomplete_by_ms) {
		refuse_late(s);
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
