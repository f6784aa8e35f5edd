/*
 * From permits to one connected socket. Promises that every connect(2) is preceded in its turn by the given check, that
 * the winner is checked again and is connected to exactly the permitted endpoint, and that nothing else stays open.
 * Refuses to make permits and to know why one ended. Called by proxy/establish.
 */
#include "net/connector.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net/sockopt.h"

#define DEADLINE_MS 10000
#define KEEPALIVE_IDLE_S 60
#define KEEPALIVE_INTERVAL_S 15
#define KEEPALIVE_COUNT 4

struct attempt {
	struct connector *connector; /* borrowed: embeds this */
	struct loop_watch *watch;    /* lent while connecting */
	int fd;                      /* owned until it wins; -1 when there is none */
	struct permit permit;
};

struct connector {
	struct loop *loop;           /* borrowed */
	struct connector_options options;
	connector_check_fn *check;
	connector_done_fn *on_done;
	void *arg;                   /* borrowed */
	struct loop_timer timer;     /* the next attempt or the deadline, whichever is first */
	struct loop_deferred next;   /* the first step, and the end */
	uint64_t deadline_at_ms;
	struct race race;
	uint8_t failure_rank;        /* of what result.reason says so far */
	struct connector_result result; /* fd owned until on_done */
	struct attempt attempts[RACE_ATTEMPTS_MAX]; /* in the order of the race */
};

struct failure {
	enum reason reason;
	uint8_t socks_reply;
	uint8_t rank; /* what tells most about the target is the highest */
};

static const struct failure failed_refused = { REASON_UPSTREAM_REFUSED, 0x05, 7 };
static const struct failure failed_reset = { REASON_UPSTREAM_RESET, 0x05, 6 };
static const struct failure failed_host = { REASON_UPSTREAM_UNREACHABLE, 0x04, 5 };
static const struct failure failed_network = { REASON_UPSTREAM_UNREACHABLE, 0x03, 4 };
static const struct failure failed_firewall = { REASON_UPSTREAM_UNREACHABLE, 0x02, 3 };
static const struct failure failed_timeout = { REASON_UPSTREAM_TIMEOUT, 0x06, 2 };
static const struct failure failed_resource = { REASON_RESOURCE, 0x01, 1 };
static const struct failure failed_internal = { REASON_INTERNAL, 0x01, 1 };

static const struct failure *failure_of(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return &failed_refused;
	case ECONNRESET:
	case ECONNABORTED:
	case EPIPE:
		return &failed_reset;
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ENOPROTOOPT:
	case EPROTO:
		return &failed_host;
	case ENETUNREACH:
	case ENETDOWN:
	case ENETRESET:
	case ENONET:
	case EAFNOSUPPORT:
		return &failed_network;
	case EACCES:
	case EPERM:
		return &failed_firewall;
	case ETIMEDOUT:
		return &failed_timeout;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
	case EADDRNOTAVAIL:
	case EADDRINUSE:
	case EAGAIN:
	case ENOSPC:
		return &failed_resource;
	default:
		return &failed_internal;
	}
}

static void note_failure(struct connector *c, const struct failure *f)
{
	if (f->rank <= c->failure_rank)
		return;
	c->failure_rank = f->rank;
	c->result.reason = f->reason;
	c->result.socks_reply = f->socks_reply;
}

static void close_attempt(struct attempt *a)
{
	loop_return_write(a->watch);
	a->watch = NULL;
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
}

static void close_all(struct connector *c)
{
	loop_timer_cancel(&c->timer);
	for (size_t i = 0; i < RACE_ATTEMPTS_MAX; i++)
		close_attempt(&c->attempts[i]);
}

static void on_end(void *arg)
{
	struct connector *c = arg;
	struct connector_result result = c->result;
	connector_done_fn *on_done = c->on_done;
	void *done_arg = c->arg;

	alloc_free(c);
	on_done(done_arg, &result);
}

/* c->result says how; the caller hears of it at the end of this turn. */
static void end(struct connector *c)
{
	close_all(c);
	loop_defer(c->loop, &c->next, on_end, c);
}

static void end_refused(struct connector *c, enum reason why)
{
	c->result.reason = why;
	c->result.socks_reply = reason_socks_reply(why);
	end(c);
}

static void step(struct connector *c);

static void attempt_failed(struct attempt *a, int error)
{
	struct connector *c = a->connector;

	close_attempt(a);
	note_failure(c, failure_of(error));
	race_failed(&c->race, loop_now_ms(c->loop));
}

/* The handshake is done: is it the right peer, and is it still allowed? False when the race is over. */
static bool attempt_connected(struct attempt *a)
{
	struct connector *c = a->connector;
	struct endpoint peer;
	enum reason why;

	if (sockopt_peer(a->fd, &peer) != ERR_OK || sockopt_local(a->fd, &c->result.local) != ERR_OK) {
		attempt_failed(a, ECONNRESET);
		return true;
	}
	if (!endpoint_equal(&peer, &a->permit.to)) {
		end_refused(c, REASON_INTERNAL);
		return false;
	}
	why = c->check(c->arg, &a->permit);
	if (why != REASON_ALLOWED) {
		end_refused(c, why);
		return false;
	}
	c->result.reason = REASON_ALLOWED;
	c->result.socks_reply = 0x00;
	c->result.permit = a->permit;
	c->result.fd = a->fd;
	a->fd = -1;
	end(c);
	return false;
}

static void on_writable(void *arg, int fd, unsigned what)
{
	struct attempt *a = arg;
	struct connector *c = a->connector;
	int error = sockopt_take_error(fd);

	if (error != 0)
		attempt_failed(a, error);
	else if (!attempt_connected(a))
		return;
	step(c);
}

/* An unconnected socket with every option that it must have; an errno when it cannot be had. */
static int open_socket(const struct connector_options *o, struct attempt *a)
{
	enum addr_family family = a->permit.to.addr.family;
	const struct addr *source = family == ADDR_V4 ? &o->source4 : &o->source6;
	bool is_ready;

	errno = EINVAL; /* for what is refused without a system call */
	is_ready = sockopt_open_tcp(family, &a->fd) == ERR_OK &&
		   (o->mark == 0 || sockopt_mark(a->fd, o->mark) == ERR_OK) &&
		   (source->family == ADDR_NONE || sockopt_source(a->fd, source) == ERR_OK) &&
		   sockopt_no_delay(a->fd) == ERR_OK &&
		   sockopt_keepalive(a->fd, o->keepalive_idle_s, KEEPALIVE_INTERVAL_S,
				     KEEPALIVE_COUNT) == ERR_OK;
	if (is_ready)
		return 0;
	/* No packet has left yet: what is forbidden here is a fault of ours, not an answer of the network's. */
	return errno == EPERM || errno == EACCES ? EINVAL : errno;
}

/* False when the race is over. */
static bool attempt_start(struct attempt *a)
{
	struct connector *c = a->connector;
	struct sockaddr_storage sa;
	enum reason why;
	socklen_t len;
	int error;

	c->result.attempts++;
	error = open_socket(&c->options, a);
	if (error != 0) {
		attempt_failed(a, error);
		return true;
	}
	len = endpoint_to_sockaddr(&a->permit.to, &sa);
	why = c->check(c->arg, &a->permit);
	if (why != REASON_ALLOWED) {
		end_refused(c, why);
		return false;
	}
	if (connect(a->fd, (const struct sockaddr *)&sa, len) == 0)
		return attempt_connected(a);
	if (errno != EINPROGRESS && errno != EINTR) {
		attempt_failed(a, errno);
		return true;
	}
	a->watch = loop_lend_write(c->loop, a->fd, on_writable, a);
	if (a->watch == NULL)
		attempt_failed(a, ENOMEM);
	return true;
}

/* Start what may start now, then wait for the next moment at which something may be done. */
static void step(struct connector *c)
{
	uint64_t now_ms = loop_now_ms(c->loop);
	uint64_t wait_ms;
	size_t index;

	if (now_ms >= c->deadline_at_ms) {
		note_failure(c, &failed_timeout);
		end(c);
		return;
	}
	while (race_take(&c->race, now_ms, &index)) {
		if (!attempt_start(&c->attempts[index]))
			return;
	}
	if (race_is_lost(&c->race)) {
		end(c);
		return;
	}
	wait_ms = race_wait_ms(&c->race, now_ms);
	if (wait_ms > c->deadline_at_ms - now_ms)
		wait_ms = c->deadline_at_ms - now_ms;
	if (loop_timer_start(&c->timer, wait_ms) != ERR_OK) {
		note_failure(c, &failed_resource);
		end(c);
	}
}

static void on_step(void *arg)
{
	step(arg);
}

static void fill(struct connector *c, const struct permit *permits, size_t count)
{
	struct endpoint endpoints[CONNECTOR_PERMITS_MAX];
	struct race all;

	for (size_t i = 0; i < count; i++)
		endpoints[i] = permits[i].to;
	race_init(&all, endpoints, count, c->options.prefer, loop_now_ms(c->loop));
	/* Keep only the permits that will ever run, in their order, so that the race's indexes are the attempts'. */
	for (uint8_t i = 0; i < RACE_ATTEMPTS_MAX; i++) {
		c->attempts[i].connector = c;
		c->attempts[i].fd = -1;
		if (i < all.count)
			c->attempts[i].permit = permits[all.order[i]];
		all.order[i] = i;
	}
	c->race = all;
}

enum err connector_start(struct loop *loop, const struct permit *permits, size_t count,
			 const struct connector_options *options, connector_check_fn *check,
			 connector_done_fn *on_done, void *arg, struct connector **out_connector)
{
	struct connector *c;

	if (count == 0 || count > CONNECTOR_PERMITS_MAX)
		return ERR_INVALID;
	c = alloc_zeroed(sizeof(*c));
	if (c == NULL)
		return ERR_NO_MEMORY;
	c->loop = loop;
	c->options = *options;
	c->check = check;
	c->on_done = on_done;
	c->arg = arg;
	c->result.reason = REASON_INTERNAL;
	c->result.socks_reply = failed_internal.socks_reply;
	c->result.fd = -1;
	if (c->options.deadline_ms == 0)
		c->options.deadline_ms = DEADLINE_MS;
	if (c->options.keepalive_idle_s == 0)
		c->options.keepalive_idle_s = KEEPALIVE_IDLE_S;
	c->deadline_at_ms = loop_now_ms(loop) + c->options.deadline_ms;
	fill(c, permits, count);
	loop_timer_init(&c->timer, loop, on_step, c);
	loop_defer(loop, &c->next, on_step, c);
	*out_connector = c;
	return ERR_OK;
}

void connector_cancel(struct connector *c)
{
	if (c == NULL)
		return;
	close_all(c);
	loop_deferred_cancel(c->loop, &c->next);
	if (c->result.fd >= 0)
		close(c->result.fd);
	alloc_free(c);
}
