/*
 * The state table, and the only ways to change state or to end. Reading order: this table, handshake.c, establish.c, tunnel.c, and
 * judge/judge.c beside them.
 */
#include "proxy/session.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "net/sockopt.h"
#include "proxy/redirect.h"
#include "proxy/worker.h"
#include "wire/socks5.h"

#define FROM(sym) BIT(SESSION_##sym)
#define FROM_ANY (~0u)

/* Who may follow whom; GREETING is entered from the GREETING that a zeroed session stands in. */
static const unsigned may_follow[SESSION_STATE_COUNT] = {
	[SESSION_GREETING] = FROM(GREETING),
	[SESSION_CREDENTIALS] = FROM(GREETING),
	[SESSION_DELAYED] = FROM(CREDENTIALS),
	[SESSION_REQUEST] = FROM(GREETING) | FROM(CREDENTIALS),
	[SESSION_MOVING] = FROM(REQUEST),
	[SESSION_RESOLVING] = FROM(REQUEST) | FROM(MOVING) | FROM(CONNECTING), /* a failing pin is asked again */
	[SESSION_CONNECTING] = FROM(REQUEST) | FROM(MOVING) | FROM(RESOLVING),
	[SESSION_FIRST_FLIGHT] = FROM(CONNECTING),
	[SESSION_RELAYING] = FROM(CONNECTING) | FROM(FIRST_FLIGHT) | FROM(RELAYING), /* its end begins there too */
	[SESSION_ENDING] = FROM_ANY & ~FROM(CLOSED),
	[SESSION_CLOSED] = FROM_ANY & ~FROM(CLOSED),
};

static const struct {
	const char *word;
	enum metric open;
	enum reason late;
} states[SESSION_STATE_COUNT] = {
#define STATE(sym, word, metric, reason) [SESSION_##sym] = { word, METRIC_##metric, REASON_##reason },
	SESSION_STATES(STATE)
#undef STATE
};

const char *session_state_word(enum session_state s)
{
	return s < SESSION_STATE_COUNT ? states[s].word : "closed";
}

void session_enter(struct session *s, enum session_state next, uint64_t after_ms)
{
	struct worker *w = s->worker;

	assert(may_follow[next] & BIT(s->state));
	if (list_node_is_linked(&s->in_state)) {
		list_remove(&w->in_state[s->state], &s->in_state);
		metrics_sub(w->metrics, states[s->state].open, 1);
	}
	s->state = next;
	s->deadline_ms = after_ms == UINT64_MAX ? UINT64_MAX : loop_now_ms(w->loop) + after_ms;
	if (next == SESSION_CLOSED || next == SESSION_MOVING)
		return;
	list_push_back(&w->in_state[next], &s->in_state);
	metrics_add(w->metrics, states[next].open, 1);
}

void session_keep_deadline(struct session *s, enum session_state next)
{
	uint64_t deadline_ms = s->deadline_ms;

	session_enter(s, next, UINT64_MAX);
	s->deadline_ms = deadline_ms;
}

void session_accept(struct worker *w, int fd, const char *listener, const struct endpoint *source)
{
	const struct world_options *o = &w->world->options;
	struct lease_arrival arrival = { .listener = listener, .source = *source };
	uint32_t cell = limits_cell(w->shared->limits, &arrival);
	struct session *s = NULL;

	if (w->draining || !worker_has_record_room(w, 1, false) || !limits_connection_begin(w->shared->limits, o->connections_max))
		goto reject;
	if (!limits_handshake_begin(w->shared->limits, cell, o->handshakes_per_source))
		goto uncount;
	s = pool_take(&w->sessions);
	if (s == NULL) {
		limits_handshake_end(w->shared->limits, cell);
		goto uncount;
	}
	s->worker = w;
	s->guest_fd = fd;
	s->origin_fd = -1;
	s->source = *source;
	s->source_cell = cell;
	s->is_counted_unfinished = true;
	s->accepted_ms = loop_now_ms(w->loop);
	s->phase = PHASE_REQUEST;
	s->verdict = verdict_refuse(REASON_INTERNAL);
	strncpy(s->listener, listener, sizeof(s->listener) - 1);
	metrics_add(w->metrics, METRIC_ACCEPTED, 1);
	session_enter(s, SESSION_GREETING, o->handshake_ms);
	handshake_start(s);
	return;
uncount:
	limits_connection_end(w->shared->limits);
reject:
	metrics_add(w->metrics, METRIC_REJECTED, 1);
	close(fd);
	worker_descriptor_freed(w);
}

struct judge session_judge(const struct session *s)
{
	struct worker *w = s->worker;

	return (struct judge){
		.snapshot = world_snapshot(w->world),
		.lease = s->home == NULL ? NULL : s->home->entry,
		.generation = s->generation,
		.wall_ms = worker_wall_ms(w),
		.site = &w->world->site,
		.geoip = w->world->geoip,
	};
}

enum reason session_check_lease(const struct session *s)
{
	struct worker *w = s->worker;
	enum reason why = gate_check(w->shared->gate, s->slot, s->generation, clock_mono_ns());

	if (s->home == NULL || s->home->entry == NULL)
		return why != REASON_ALLOWED ? why : REASON_LEASE_REVOKED;
	if (why == REASON_ALLOWED)
		why = lease_table_is_live(s->home->entry, worker_wall_ms(w));
	if (why == REASON_ALLOWED && loop_now_ms(w->loop) >= s->home->expires_mono_ms)
		why = REASON_LEASE_EXPIRED;
	return why;
}

enum reason session_judge_again(struct session *s)
{
	struct judge j;
	struct verdict v;
	struct addr_finding finding;
	struct permit permit;
	enum reason why = session_check_lease(s);

	if (why != REASON_ALLOWED)
		return why;
	if (!s->target_known || tunnel_is_ending(s))
		return REASON_ALLOWED; /* nothing was asked yet, or nothing more will pass */
	j = session_judge(s);
	v = judge_request(&j, &s->target);
	if (v.allow && s->establish != NULL) {
		why = establish_judge_again(s, &v);
		if (why != REASON_ALLOWED)
			return why;
	}
	if (v.allow && s->upstream.addr.family != ADDR_NONE) {
		struct verdict at = judge_address(&j, &s->target, &v, &s->upstream.addr, &finding, &permit);

		if (!at.allow)
			return at.reason;
	}
	if (v.allow && s->state == SESSION_RELAYING)
		v = judge_stream(&j, &s->target, &v, &s->seen);
	if (!v.allow)
		return v.reason;
	/* While connecting, the permit tells under which policy it was given. */
	if (s->state == SESSION_FIRST_FLIGHT || s->state == SESSION_RELAYING)
		s->verdict = v;
	return REASON_ALLOWED;
}

void session_fill_record(const struct session *s, enum record_event event, enum reason why, struct record *out_record)
{
	struct record *r = out_record;
	struct worker *w = s->worker;
	uint64_t now_ms = loop_now_ms(w->loop);

	*r = (struct record){ .event = event, .wall_ms = worker_wall_ms(w), .worker = (uint8_t)w->index };
	memcpy(r->id, s->id, sizeof(r->id));
	if (s->home != NULL) {
		const struct lease *l = &s->home->lease;

		memcpy(r->lease, l->id, sizeof(r->lease));
		memcpy(r->tenant, l->tenant, sizeof(r->tenant));
		memcpy(r->run, l->run, sizeof(r->run));
		memcpy(r->environment_class, l->environment_class, sizeof(r->environment_class));
		r->rev = l->rev;
		_Static_assert((int)RECORD_SCOPE_UNDECLARED == LAYOUT_SCOPE_UNDECLARED && (int)RECORD_SCOPE_DECLARED == LAYOUT_SCOPE_DECLARED,
			       "both number scopes alike");
		r->scope = (enum record_scope)l->scope;
		r->claimed_scope = (enum record_scope)l->claimed_scope;
	}
	memcpy(r->tag, s->tag, sizeof(r->tag));
	memcpy(r->listener, s->listener, sizeof(r->listener));
	r->source = s->source;
	r->target_known = s->target_known;
	if (s->target_known)
		r->target = s->target;
	else if (s->handshake != NULL)
		handshake_raw_name(s, r->target_raw, sizeof(r->target_raw));
	if (s->seen.scheme_known)
		r->scheme_plus_one = (uint8_t)(s->seen.scheme + 1);
	if (s->seen.name_known)
		memcpy(r->server_name, s->seen.name.text, sizeof(r->server_name));
	r->ech = s->seen.has_ech;
	r->upstream = s->upstream;
	r->refused_addr = s->refused_addr;
	r->addr_class = s->addr_class;
	r->phase = s->phase;
	r->verdict = s->verdict;
	/* A report-only verdict keeps what enforcement would have said. */
	if (!(why == REASON_ALLOWED && s->verdict.would_deny))
		r->verdict.reason = why;
	r->verdict.allow = why == REASON_ALLOWED || event != RECORD_DECISION;
	r->nat64_dropped = s->nat64_dropped;
	r->pin_failed = s->pin_failed;
	if (s->tunnel != NULL)
		tunnel_fill_record(s, r);
	r->judge_us = s->judge_us;
	r->dns_ms = s->dns_ms;
	r->connect_ms = s->connect_ms;
	if (s->was_open)
		r->duration_ms = now_ms - s->opened_ms;
	if (s->relay != NULL) {
		struct relay_counts counts;

		relay_count(s->relay, &counts);
		r->bytes_up = counts.bytes[RELAY_UP];
		r->bytes_down = counts.bytes[RELAY_DOWN];
	}
}

/* Give the session its id with its first record: time and chance, so that ids sort and do not collide. */
static void make_id(struct session *s)
{
	uint8_t random[10];

	if (s->id[0] != '\0')
		return;
	if (crypto_random(random, sizeof(random)) != ERR_OK)
		memset(random, 0, sizeof(random)); /* an id that repeats is bad, a lost refusal is worse */
	record_make_id(worker_wall_ms(s->worker), random, s->id);
}

static void emit(struct session *s, enum record_event event, enum reason why)
{
	struct record r;

	make_id(s);
	session_fill_record(s, event, why, &r);
	if (event == RECORD_DECISION && why == REASON_ALLOWED) {
		const char *from = redirect_find(s);

		if (from != NULL) {
			memcpy(r.redirect_from, from, sizeof(r.redirect_from));
			r.inferred = true;
		}
	}
	if (event == RECORD_DECISION) {
		metrics_decision(s->worker->metrics, why);
		if (why != REASON_ALLOWED)
			recent_remember(s->home != NULL ? &s->home->refused : &s->worker->refused, &r);
	} else if (event == RECORD_CUT) {
		metrics_cut(s->worker->metrics, why);
	}
	worker_record(s->worker, &r);
}

void session_record_decision(struct session *s, enum reason why)
{
	/* After success only the stream is left to decide about, even when it never got as far as being judged. */
	if (s->was_open && s->phase < PHASE_STREAM)
		s->phase = PHASE_STREAM;
	emit(s, RECORD_DECISION, why);
}

/* Give back what waits, so that nothing calls back any more. */
static void release_relay(struct session *s)
{
	establish_release(s);
	if (s->relay != NULL) {
		struct relay_counts counts;

		relay_count(s->relay, &counts);
		if (s->home != NULL)
			s->home->bytes_closed += counts.bytes[RELAY_UP] + counts.bytes[RELAY_DOWN];
		relay_destroy(s->relay);
		s->relay = NULL;
	}
	s->worker->hold_bytes -= s->held_bytes;
	if (s->home != NULL)
		s->home->hold_bytes -= s->held_bytes;
	s->held_bytes = 0;
}

static void close_fd(int *fd)
{
	int closing = *fd;

	*fd = -1;
	if (closing >= 0)
		close(closing);
}

void session_release_tunnel(struct session *s)
{
	release_relay(s);
	tunnel_release(s);
	close_fd(&s->origin_fd);
}

void session_end_handshake(struct session *s)
{
	if (s->is_counted_unfinished)
		limits_handshake_end(s->worker->shared->limits, s->source_cell);
	s->is_counted_unfinished = false;
}

static void session_close(struct session *s)
{
	struct worker *w = s->worker;

	session_release_tunnel(s);
	handshake_release(s);
	close_fd(&s->guest_fd);
	session_end_handshake(s);
	if (s->home != NULL)
		list_remove(&s->home->sessions, &s->in_home);
	session_enter(s, SESSION_CLOSED, UINT64_MAX);
	limits_connection_end(w->shared->limits);
	worker_descriptor_freed(w);
	worker_bury(w, s);
}

/* Last words are out. */
static void linger(struct session *s)
{
	if (!handshake_linger(s)) {
		session_close(s);
		return;
	}
	session_enter(s, SESSION_ENDING, SESSION_ENDING_MS);
}

void session_refuse(struct session *s, enum reason why)
{
	session_refuse_with(s, why, reason_socks_reply(why));
}

void session_refuse_with(struct session *s, enum reason why, uint8_t socks_reply)
{
	uint8_t bytes[SOCKS5_REPLY_MAX];
	size_t len = 0;

	session_record_decision(s, why);
	session_release_tunnel(s);
	switch (reason_via(why)) {
	case REASON_VIA_METHOD:
		len = socks5_put_method(SOCKS5_METHOD_NO_ACCEPTABLE, bytes);
		break;
	case REASON_VIA_AUTH:
		len = socks5_put_auth_status(false, bytes);
		break;
	case REASON_VIA_REPLY:
	case REASON_VIA_STREAM:
		if (s->state >= SESSION_REQUEST)
			len = socks5_put_reply(socks_reply == 0 ? 0x01 : socks_reply, NULL, bytes);
		break;
	case REASON_VIA_CLOSE:
	case REASON_VIA_NONE:
		break;
	}
	if (len > 0)
		handshake_send_reply(s, bytes, len);
	linger(s);
}

void session_finish(struct session *s, enum reason why)
{
	emit(s, RECORD_CLOSE, why);
	session_close(s);
}

void session_finish_heard(struct session *s, enum reason why)
{
	emit(s, RECORD_CLOSE, why);
	session_release_tunnel(s);
	linger(s);
}

void session_end_silent(struct session *s)
{
	session_close(s);
}

void session_cut(struct session *s, enum reason why)
{
	if (s->state == SESSION_ENDING || s->state == SESSION_CLOSED) {
		if (s->state == SESSION_ENDING)
			session_close(s);
		return;
	}
	emit(s, s->was_open ? RECORD_CUT : RECORD_DECISION, why);
	/* Hard: a half that lingers is a lease that lives on. */
	if (s->guest_fd >= 0)
		(void)!sockopt_reset_on_close(s->guest_fd);
	if (s->origin_fd >= 0)
		(void)!sockopt_reset_on_close(s->origin_fd);
	session_close(s);
}

void session_on_deadline(struct session *s)
{
	switch (s->state) {
	case SESSION_DELAYED:
		handshake_delay_over(s);
		return;
	case SESSION_FIRST_FLIGHT:
	case SESSION_RELAYING:
		tunnel_on_deadline(s);
		return;
	case SESSION_ENDING:
		/* Some clients (nc) stay until the way they send on ends as well. A reset would take back what is not theirs yet. */
		if (s->guest_fd >= 0 && sockopt_is_delivered(s->guest_fd))
			(void)!sockopt_reset_on_close(s->guest_fd);
		session_close(s);
		return;
	case SESSION_RESOLVING:
		session_refuse(s, establish_deadline_reason(s));
		return;
	default:
		session_refuse(s, states[s->state].late);
		return;
	}
}
