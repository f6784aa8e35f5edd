/*
 * Accepts guests. Promises that no accept error leaves the loop, spins it or ends it: what passes is skipped, the rest
 * pauses, and the pause ends by time or by listener_wake. Refuses to know what a guest is. Called by proxy/worker.
 */
#include "net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/sockopt.h"

#define ACCEPTS_PER_WAKEUP 16
#define PAUSE_MS 500
#define WAITING_MAX 65536 /* more than any backlog holds */
#define NAME_MAX_LEN 64

struct listener {
	struct loop *loop;       /* borrowed */
	struct metrics *metrics; /* borrowed */
	listener_accept_fn *on_accept;
	void *arg;               /* borrowed */
	int fd;                  /* owned; -1 once destroyed */
	int spare_fd;            /* owned: given up for a moment so that one client can be told; -1 when there is none */
	unsigned accepts_per_wakeup;
	unsigned pause_ms;
	bool is_unix;
	bool paused;
	struct loop_watch watch;
	struct loop_timer pause;
	struct loop_deferred free_later;
	struct log_limit limit;
	char name[NAME_MAX_LEN + 1];
};

enum trouble { TROUBLE_NONE_WAITING, TROUBLE_PASSING, TROUBLE_EXHAUSTED, TROUBLE_UNKNOWN };

/* accept(2) hands over errors of the connection it took off the queue; those are not the listener's. */
static enum trouble trouble_of(int error)
{
	switch (error) {
	case EAGAIN:
		return TROUBLE_NONE_WAITING;
	case EINTR:
	case ECONNABORTED:
	case ECONNRESET:
	case EPERM:
	case EPROTO:
	case ENOPROTOOPT:
	case EOPNOTSUPP:
	case ENETDOWN:
	case ENETUNREACH:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ENONET:
	case ETIMEDOUT:
		return TROUBLE_PASSING;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
		return TROUBLE_EXHAUSTED;
	default:
		return TROUBLE_UNKNOWN;
	}
}

static int accept_one(struct listener *l, struct endpoint *out_source)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);
	int fd = sockopt_for_guest(accept4(l->fd, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC));

	metrics_add(l->metrics, METRIC_ACCEPT_CALLS, 1);
	if (fd < 0)
		return -1;
	if (l->is_unix || !addr_from_peer((const struct sockaddr *)&sa, out_source))
		*out_source = (struct endpoint){ 0 };
	return fd;
}

/* A socket, not a file: the sandbox lets no file be opened. */
static void take_spare(struct listener *l)
{
	if (l->spare_fd < 0 && sockopt_open_tcp(ADDR_V4, &l->spare_fd) != ERR_OK)
		l->spare_fd = -1;
}

/* One waiting client sees a close at once instead of a hang. */
static void turn_one_away(struct listener *l)
{
	struct endpoint source;
	int fd;

	if (l->spare_fd < 0)
		return;
	close(l->spare_fd);
	l->spare_fd = -1;
	fd = accept_one(l, &source);
	if (fd >= 0) {
		close(fd);
		metrics_add(l->metrics, METRIC_REJECTED, 1);
	}
	take_spare(l);
}

static void pause_accepting(struct listener *l, int error)
{
	l->paused = true;
	loop_watch_stop(&l->watch);
	metrics_add(l->metrics, METRIC_ACCEPT_PAUSED, 1);
	log_limited(&l->limit, LOG_LEVEL_WARN, "accept_paused listener=%s errno=%d pause_ms=%u", l->name,
		    error, l->pause_ms);
	/* Without memory for the timer, listener_wake is left to end the pause. */
	if (loop_timer_start(&l->pause, l->pause_ms) != ERR_OK)
		log_limited(&l->limit, LOG_LEVEL_ERROR, "accept_pause_without_timer listener=%s", l->name);
}

static void on_waiting(void *arg, int fd, unsigned what)
{
	struct listener *l = arg;

	for (unsigned n = 0; n < l->accepts_per_wakeup; n++) {
		struct endpoint source;
		int guest_fd = accept_one(l, &source);

		if (guest_fd >= 0) {
			l->on_accept(l->arg, l, guest_fd, &source);
			if (l->fd < 0)
				return;
			continue;
		}
		switch (trouble_of(errno)) {
		case TROUBLE_NONE_WAITING:
			/* Only now: guests come first. */
			take_spare(l);
			return;
		case TROUBLE_PASSING:
			continue;
		case TROUBLE_EXHAUSTED:
			pause_accepting(l, errno);
			turn_one_away(l);
			return;
		case TROUBLE_UNKNOWN:
			pause_accepting(l, errno);
			return;
		}
	}
}

void listener_wake(struct listener *l)
{
	if (!l->paused)
		return;
	l->paused = false;
	loop_timer_cancel(&l->pause);
	if (loop_watch_start(&l->watch) != ERR_OK)
		pause_accepting(l, errno);
}

static void on_pause_over(void *arg)
{
	listener_wake(arg);
}

/* Received descriptors may be anything: look before accepting on one. */
static enum err look_at(int fd, bool *out_is_unix)
{
	int domain = 0, listening = 0, flags;
	socklen_t len = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) != 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0)
		return ERR_SYSTEM;
	if (listening == 0 || (domain != AF_UNIX && domain != AF_INET && domain != AF_INET6))
		return ERR_INVALID;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return ERR_SYSTEM;
	/* Accepted sockets inherit it. */
	if (domain != AF_UNIX && sockopt_no_delay(fd) != ERR_OK)
		return ERR_SYSTEM;
	*out_is_unix = domain == AF_UNIX;
	return ERR_OK;
}

enum err listener_create(struct loop *loop, struct metrics *metrics, int fd,
			 const struct listener_options *options, listener_accept_fn *on_accept,
			 void *arg, struct listener **out_listener)
{
	struct listener *l = NULL;
	bool is_unix;
	enum err e = look_at(fd, &is_unix);

	if (e != ERR_OK)
		return e;
	l = alloc_zeroed(sizeof(*l));
	if (l == NULL)
		return ERR_NO_MEMORY;
	l->loop = loop;
	l->metrics = metrics;
	l->on_accept = on_accept;
	l->arg = arg;
	l->fd = fd;
	l->spare_fd = -1;
	l->accepts_per_wakeup = options->accepts_per_wakeup != 0 ? options->accepts_per_wakeup :
								   ACCEPTS_PER_WAKEUP;
	l->pause_ms = options->pause_ms != 0 ? options->pause_ms : PAUSE_MS;
	l->is_unix = is_unix;
	l->limit = (struct log_limit){ .burst = 1, .interval_ms = 10000 };
	snprintf(l->name, sizeof(l->name), "%s", options->name);
	take_spare(l);
	loop_timer_init(&l->pause, loop, on_pause_over, l);
	loop_watch_init(&l->watch, loop, fd, LOOP_READ, on_waiting, l);
	e = loop_watch_start(&l->watch);
	if (e != ERR_OK)
		goto out;
	*out_listener = l;
	return ERR_OK;
out:
	if (l->spare_fd >= 0)
		close(l->spare_fd);
	alloc_free(l);
	return e;
}

void listener_destroy(struct listener *l)
{
	if (l == NULL || l->fd < 0)
		return;
	loop_watch_stop(&l->watch);
	loop_timer_cancel(&l->pause);
	close(l->fd);
	l->fd = -1;
	if (l->spare_fd >= 0)
		close(l->spare_fd);
	/* It may be called from on_accept. */
	loop_defer(l->loop, &l->free_later, alloc_free, l);
}

const char *listener_name(const struct listener *l)
{
	return l->name;
}

bool listener_is_unix(const struct listener *l)
{
	return l->is_unix;
}

bool listener_is_paused(const struct listener *l)
{
	return l->paused;
}

void listener_take_waiting(struct listener *l)
{
	struct endpoint source;

	for (unsigned n = 0; n < WAITING_MAX && l->fd >= 0; n++) {
		int guest_fd = accept_one(l, &source);

		if (guest_fd >= 0)
			l->on_accept(l->arg, l, guest_fd, &source);
		else if (trouble_of(errno) != TROUBLE_PASSING)
			return;
	}
}
