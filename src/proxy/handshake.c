/*
 * The client's half: greeting, lease, request (RFC 1928 sections 3 to 6, RFC 1929). Ends by moving the session to its lease's home
 * worker, where judgement begins. Takes any chunking and pipelining; each reply is one write.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/buf.h"
#include "base/cursor.h"
#include "proxy/worker_internal.h"
#include "wire/socks5.h"

/* Room for the handshake and for a first flight that comes with it (Chromium's hello is 1.8 kB). */
#define HANDSHAKE_READ_MAX 16384

struct handshake {
	struct loop_watch watch; /* on guest_fd for reading */
	struct buf in;           /* what the guest sent and nobody took yet */
	bool lingers;            /* reads are thrown away */
	bool delayed;            /* counted in the shared limits */
	enum reason control;     /* what control or identity say about every request; ALLOWED to go on */
	char lease_id[RECORD_LEASE_MAX + 1]; /* "" while unknown; an id, not an entry: the world may change meanwhile */
	uint64_t identified_in;  /* number of the world that knew it by that id */
	bool has_claim;
	struct lease_claim claim; /* what it showed for it, when has_claim */
	enum target_result named; /* of the request's host */
	uint8_t command;
	char raw_name[TARGET_TEXT_MAX]; /* escaped, when `named` is not OK */
};

static void advance(struct session *s);

static void on_readable(void *arg, int fd, unsigned what)
{
	struct session *s = arg;
	struct handshake *h = s->handshake;
	uint8_t away[4096];
	size_t want = buf_room(&h->in);
	uint8_t *into = h->lingers ? away : buf_reserve(&h->in, want < sizeof(away) ? want : sizeof(away));
	ssize_t got;

	if (!h->lingers && into == NULL) {
		session_refuse(s, want == 0 ? REASON_SOCKS_MALFORMED : REASON_RESOURCE);
		return;
	}
	got = recv(fd, into, h->lingers || want > sizeof(away) ? sizeof(away) : want, 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		session_end_silent(s); /* the guest left before it asked for anything */
		return;
	}
	if (h->lingers)
		return;
	buf_commit(&h->in, (size_t)got);
	advance(s);
}

/* Watch the guest from this worker's loop. False: the session is over. */
static bool watch_guest(struct session *s)
{
	loop_watch_init(&s->handshake->watch, s->worker->loop, s->guest_fd, LOOP_READ, on_readable, s);
	return loop_watch_start(&s->handshake->watch) == ERR_OK;
}

void handshake_start(struct session *s)
{
	struct worker *w = s->worker;
	struct lease_arrival arrival = { .listener = s->listener, .source = s->source };
	struct lease_arrival_options options;
	struct handshake *h = pool_take(&w->handshakes);

	if (h == NULL) {
		session_refuse(s, REASON_RESOURCE);
		return;
	}
	s->handshake = h;
	buf_init(&h->in, HANDSHAKE_READ_MAX);
	h->named = TARGET_NAME_INVALID;
	h->control = w->world->table == NULL ? REASON_NOT_READY :
					       gate_check_control(w->shared->gate, clock_mono_ns());
	if (h->control == REASON_ALLOWED) {
		lease_table_arrive(w->world->table, &arrival, &options);
		if (options.alone == REASON_LEASE_UNKNOWN && !options.token_may_help) {
			session_refuse(s, REASON_LEASE_UNKNOWN); /* no word it could say would help */
			return;
		}
	}
	if (!watch_guest(s))
		session_refuse(s, REASON_RESOURCE);
}

static void refuse_fault(struct session *s, enum socks5_fault fault)
{
	static const enum reason reasons[] = {
		[SOCKS5_FAULT_NONE] = REASON_INTERNAL,
		[SOCKS5_FAULT_VERSION] = REASON_SOCKS_VERSION,
		[SOCKS5_FAULT_MALFORMED] = REASON_SOCKS_MALFORMED,
		[SOCKS5_FAULT_ADDRESS_TYPE] = REASON_SOCKS_ADDRESS_TYPE,
	};

	session_refuse(s, reasons[fault]);
}

static void identify(struct session *s, const struct lease_table_entry *entry, const struct lease_claim *claim)
{
	struct handshake *h = s->handshake;
	const struct segment *segment = entry->lease->segment;
	struct text id = segment_text(segment, segment_lease(segment)->id);

	h->identified_in = s->worker->world->number;
	h->has_claim = claim != NULL;
	if (claim != NULL)
		h->claim = *claim;
	memcpy(h->lease_id, id.at, id.len < sizeof(h->lease_id) ? id.len : sizeof(h->lease_id) - 1);
}

/* Which method? Prefers the password only where a token could say more than the way of arrival. */
static uint8_t choose_method(struct session *s, const struct socks5_greeting *g)
{
	struct worker *w = s->worker;
	struct handshake *h = s->handshake;
	struct lease_arrival arrival = { .listener = s->listener, .source = s->source };
	struct lease_arrival_options options = { .alone = REASON_ALLOWED };
	uint8_t any = g->offers_none	 ? SOCKS5_METHOD_NONE :
		      g->offers_password ? SOCKS5_METHOD_PASSWORD :
					   SOCKS5_METHOD_NO_ACCEPTABLE;

	if (h->control != REASON_ALLOWED)
		return any; /* every request will be refused; let it come so that the reply can say so */
	lease_table_arrive(w->world->table, &arrival, &options);
	if (options.token_may_help && g->offers_password)
		return SOCKS5_METHOD_PASSWORD;
	if (options.alone == REASON_LEASE_UNKNOWN)
		return SOCKS5_METHOD_NO_ACCEPTABLE;
	h->control = options.alone;
	if (options.alone == REASON_ALLOWED)
		identify(s, options.entry, NULL);
	return any;
}

static bool on_greeting(struct session *s, struct cursor *in)
{
	struct socks5_greeting greeting;
	enum socks5_fault fault;
	uint8_t method, reply[2];

	switch (socks5_take_greeting(in, &greeting, &fault)) {
	case PARSED_MORE:
		return false;
	case PARSED_BAD:
		if (fault == SOCKS5_FAULT_VERSION) {
			struct text answer = socks5_foreign_answer(buf_data(&s->handshake->in), s->handshake->in.len);

			if (answer.len > 0)
				handshake_send_reply(s, (const uint8_t *)answer.at, answer.len);
		}
		refuse_fault(s, fault);
		return false;
	case PARSED_OK:
		break;
	}
	method = choose_method(s, &greeting);
	if (method == SOCKS5_METHOD_NO_ACCEPTABLE) {
		session_refuse(s, REASON_AUTH_REQUIRED);
		return false;
	}
	socks5_put_method(method, reply);
	session_keep_deadline(s, method == SOCKS5_METHOD_PASSWORD ? SESSION_CREDENTIALS : SESSION_REQUEST);
	handshake_send_reply(s, reply, sizeof(reply));
	return true;
}

/* A login failed: answer now, or hold the answer back so that guessing is slow. */
static void fail_login(struct session *s)
{
	struct worker *w = s->worker;
	uint32_t delay_ms = limits_login_failed(w->shared->limits, s->source_cell, loop_now_ms(w->loop));

	loop_watch_stop(&s->handshake->watch);
	if (delay_ms == 0) {
		session_refuse(s, REASON_AUTH_FAILED);
	} else if (delay_ms == UINT32_MAX) {
		session_record_decision(s, REASON_AUTH_FAILED);
		session_end_silent(s);
	} else {
		s->handshake->delayed = true;
		session_enter(s, SESSION_DELAYED, delay_ms);
	}
}

void handshake_delay_over(struct session *s)
{
	session_refuse(s, REASON_AUTH_FAILED);
}

static bool on_credentials(struct session *s, struct cursor *in)
{
	struct worker *w = s->worker;
	struct handshake *h = s->handshake;
	struct lease_arrival arrival = { .listener = s->listener, .source = s->source };
	const struct lease_table_entry *entry = NULL;
	struct socks5_credentials credentials;
	struct lease_claim claim;
	enum socks5_fault fault;
	enum reason why;
	uint8_t status[2];

	switch (socks5_take_credentials(in, &credentials, &fault)) {
	case PARSED_MORE:
		return false;
	case PARSED_BAD:
		session_refuse(s, REASON_AUTH_FAILED);
		return false;
	case PARSED_OK:
		break;
	}
	if (h->control == REASON_ALLOWED) {
		if (lease_token_claim(credentials.user, credentials.password, &claim) != ERR_OK) {
			session_refuse(s, REASON_INTERNAL);
			return false;
		}
		why = lease_table_claim(w->world->table, &arrival, &claim, worker_wall_ms(w), &entry);
		if (why == REASON_AUTH_FAILED) {
			fail_login(s);
			return false;
		}
		h->control = why;
		if (why == REASON_ALLOWED) {
			identify(s, entry, &claim);
			if (strcmp(claim.id, h->lease_id) == 0) /* else the credentials counted as none, and so does their tag */
				memcpy(s->tag, claim.tag, sizeof(s->tag));
		}
	}
	socks5_put_auth_status(true, status);
	session_keep_deadline(s, SESSION_REQUEST);
	handshake_send_reply(s, status, sizeof(status));
	return true;
}

/* Keep what was asked for in canonical form, or as escaped text when it is nothing we could ask for. */
static void note_target(struct session *s, const struct socks5_request *request)
{
	struct handshake *h = s->handshake;

	h->command = request->command;
	if (request->host == SOCKS5_HOST_ADDRESS) {
		target_from_addr(&request->addr, request->port, &s->target);
		h->named = TARGET_OK;
	} else {
		h->named = target_from_host(request->name, request->port, &s->target);
	}
	s->target_known = h->named == TARGET_OK;
	if (!s->target_known)
		text_escape(request->name, h->raw_name, sizeof(h->raw_name));
}

/* Hand the session to the thread on which everything about its lease lives. Nothing was judged yet. */
static void move_home(struct session *s, struct worker *home)
{
	struct worker *w = s->worker;

	loop_watch_stop(&s->handshake->watch);
	session_enter(s, SESSION_MOVING, UINT64_MAX);
	pool_disown(&w->sessions);
	pool_disown(&w->handshakes);
	s->worker = home;
	loop_post(home->loop, &s->mail, handshake_arrive_home, s);
}

static bool on_request(struct session *s, struct cursor *in)
{
	struct worker *w = s->worker;
	struct handshake *h = s->handshake;
	struct socks5_request request;
	enum socks5_fault fault;
	struct worker *home;

	switch (socks5_take_request(in, &request, &fault)) {
	case PARSED_MORE:
		return false;
	case PARSED_BAD:
		refuse_fault(s, fault);
		return false;
	case PARSED_OK:
		break;
	}
	note_target(s, &request);
	buf_consume(&h->in, h->in.len - cursor_left(in)); /* what is left is the first of its stream */
	loop_watch_stop(&h->watch);
	metrics_observe_us(w->metrics, HISTOGRAM_HANDSHAKE, (loop_now_ms(w->loop) - s->accepted_ms) * 1000);
	if (h->control != REASON_ALLOWED || h->lease_id[0] == '\0' || w->draining) {
		enum reason why = h->control != REASON_ALLOWED ? h->control : REASON_INTERNAL;

		if (request.command != SOCKS5_COMMAND_CONNECT)
			why = REASON_SOCKS_COMMAND;
		else if (w->draining)
			why = reason_stronger(why, REASON_DRAINING);
		session_refuse(s, why);
		return false;
	}
	home = worker_home_of(w->shared, text_of(h->lease_id));
	if (home == w)
		handshake_arrive_home(s);
	else
		move_home(s, home);
	return false;
}

static void advance(struct session *s)
{
	bool more = true;

	while (more) {
		struct handshake *h = s->handshake;
		struct cursor in = cursor_over(buf_data(&h->in), h->in.len);

		switch (s->state) {
		case SESSION_GREETING:
			more = on_greeting(s, &in);
			break;
		case SESSION_CREDENTIALS:
			more = on_credentials(s, &in);
			break;
		case SESSION_REQUEST:
			more = on_request(s, &in);
			return;
		default:
			return;
		}
		if (more)
			buf_consume(&h->in, h->in.len - cursor_left(&in));
	}
}

/* Would a world that came meanwhile still know this guest as `entry`? Tokens, sources and listeners of a lease change under its id. */
static bool is_still_known(struct session *s, const struct lease_table_entry *entry)
{
	struct worker *w = s->worker;
	struct handshake *h = s->handshake;
	struct lease_arrival arrival = { .listener = s->listener, .source = s->source };
	const struct lease_table_entry *now = NULL;
	struct lease_arrival_options options;

	if (w->world->number <= h->identified_in)
		return true;
	if (h->has_claim)
		return lease_table_claim(w->world->table, &arrival, &h->claim, worker_wall_ms(w), &now) == REASON_ALLOWED && now == entry;
	lease_table_arrive(w->world->table, &arrival, &options);
	return options.alone == REASON_ALLOWED && options.entry == entry;
}

/* On the home worker: find the lease in the world of this thread, which may be newer, and take a seat in its home. */
void handshake_arrive_home(void *session)
{
	struct session *s = session;
	struct worker *w = s->worker;
	struct handshake *h = s->handshake;
	const struct lease_table_entry *entry =
		w->world->table == NULL ? NULL : lease_table_find(w->world->table, text_of(h->lease_id));
	struct lease_home *home = entry == NULL ? NULL : worker_home(w, entry);
	enum reason why;

	if (s->state == SESSION_MOVING) {
		pool_adopt(&w->sessions);
		pool_adopt(&w->handshakes);
	}
	if (home == NULL) {
		session_refuse(s, entry == NULL ? REASON_LEASE_REVOKED : REASON_RESOURCE);
		return;
	}
	/* Not even a refusal could be written down. */
	if (!worker_has_record_room(w, 1, false)) {
		metrics_add(w->metrics, METRIC_REJECTED, 1);
		session_end_silent(s);
		return;
	}
	s->home = home;
	s->slot = home->slot;
	s->generation = gate_generation(w->shared->gate, home->slot);
	list_push_back(&home->sessions, &s->in_home);
	why = session_check_lease(s);
	if (why == REASON_ALLOWED && !is_still_known(s, entry))
		why = REASON_POLICY_CHANGED;
	if (h->command != SOCKS5_COMMAND_CONNECT)
		why = REASON_SOCKS_COMMAND;
	else if (w->draining)
		why = reason_stronger(why, REASON_DRAINING);
	if (why == REASON_ALLOWED && !worker_has_record_room(w, WORKER_RECORDS_ADMITTED, true))
		why = REASON_AUDIT_BACKPRESSURE;
	if (why == REASON_ALLOWED)
		why = lease_home_admit(home, &w->world->options, s->target_known ? &s->target : NULL, loop_now_ms(w->loop));
	if (why == REASON_ALLOWED && h->named != TARGET_OK)
		why = h->named == TARGET_LITERAL_IN_NAME ? REASON_LITERAL_IN_NAME : REASON_NAME_INVALID;
	if (why != REASON_ALLOWED) {
		session_refuse(s, why);
		return;
	}
	establish_start(s);
}

void handshake_send_reply(struct session *s, const uint8_t *bytes, size_t len)
{
	if (s->guest_fd >= 0)
		(void)send(s->guest_fd, bytes, len, MSG_NOSIGNAL);
}

bool handshake_linger(struct session *s)
{
	struct handshake *h = s->handshake;

	if (s->guest_fd < 0 || shutdown(s->guest_fd, SHUT_WR) != 0)
		return false;
	if (h == NULL) {
		h = s->handshake = pool_take(&s->worker->handshakes);
		if (h == NULL)
			return false;
		buf_init(&h->in, HANDSHAKE_READ_MAX);
	}
	h->lingers = true;
	return h->watch.started || watch_guest(s);
}

void handshake_surplus(const struct session *s, const uint8_t **out_bytes, size_t *out_len)
{
	*out_bytes = s->handshake == NULL ? NULL : buf_data(&s->handshake->in);
	*out_len = s->handshake == NULL ? 0 : s->handshake->in.len;
}

void handshake_raw_name(const struct session *s, char *out_text, size_t cap)
{
	strncpy(out_text, s->handshake->raw_name, cap - 1);
	out_text[cap - 1] = '\0';
}

void handshake_release(struct session *s)
{
	struct handshake *h = s->handshake;

	if (h == NULL)
		return;
	s->handshake = NULL;
	loop_watch_stop(&h->watch);
	if (h->delayed)
		limits_delay_ended(s->worker->shared->limits, s->source_cell);
	buf_finish(&h->in);
	pool_give(&s->worker->handshakes, h);
}

size_t handshake_size(void)
{
	return sizeof(struct handshake);
}
