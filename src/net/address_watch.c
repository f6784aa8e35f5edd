/*
 * The kernel's addresses by rtnetlink(7). Any change, loss or inconsistency leads to a whole new dump: one way to be
 * right instead of two. Promises that a list is complete or does not come; refuses to know what it is used for.
 * Called by daemon at boot and fed to facts/own_addresses.
 */
#include "net/address_watch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

#define RECEIVE_LEN 65536 /* the kernel fills at most 32 KiB at a time */
#define DATAGRAMS_PER_WAKEUP 16
#define ADDRESSES_MAX 65536
#define RETRY_MS 1000
#define READ_MS 1000

struct address_watch {
	int fd;                   /* owned: netlink */
	uint32_t port;            /* of fd, as the kernel numbers netlink sockets */
	uint32_t sequence;        /* of the dump under way, or of the last one */
	bool asking;              /* a dump is under way */
	bool spoiled;             /* it cannot be used */
	bool stale;               /* something changed since it was asked for */
	bool refused;             /* the kernel said no: ask again after a while, not at once */
	struct addr *addrs;       /* owned */
	size_t count, capacity;
	uint8_t *received;        /* owned: RECEIVE_LEN */
	struct loop *loop;        /* borrowed; NULL before start */
	struct loop_watch watch;
	struct loop_timer retry;
	address_watch_fn *on_list;
	void *arg;                /* borrowed */
	struct log_limit limit;
};

enum err address_watch_open(struct address_watch **out_watch)
{
	struct sockaddr_nl sa = { .nl_family = AF_NETLINK,
				  .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR };
	socklen_t len = sizeof(sa);
	struct address_watch *w = alloc_zeroed(sizeof(*w));
	enum err e = ERR_NO_MEMORY;

	if (w == NULL)
		return e;
	w->fd = -1;
	w->limit = (struct log_limit){ .burst = 1, .interval_ms = 60000 };
	w->received = alloc_array(RECEIVE_LEN, 1);
	if (w->received == NULL)
		goto out;
	e = ERR_SYSTEM;
	w->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (w->fd < 0 || bind(w->fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 ||
	    getsockname(w->fd, (struct sockaddr *)&sa, &len) != 0)
		goto out;
	w->port = sa.nl_pid;
	*out_watch = w;
	return ERR_OK;
out:
	address_watch_close(w);
	return e;
}

void address_watch_close(struct address_watch *w)
{
	if (w == NULL)
		return;
	if (w->loop != NULL) {
		loop_watch_stop(&w->watch);
		loop_timer_cancel(&w->retry);
	}
	if (w->fd >= 0)
		close(w->fd);
	alloc_free(w->addrs);
	alloc_free(w->received);
	alloc_free(w);
}

static enum err ask(struct address_watch *w)
{
	struct {
		struct nlmsghdr header;
		struct ifaddrmsg body;
	} request = { .header = { .nlmsg_len = sizeof(request),
				  .nlmsg_type = RTM_GETADDR,
				  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
				  .nlmsg_seq = ++w->sequence },
		      .body = { .ifa_family = AF_UNSPEC } };
	ssize_t n;

	w->asking = true;
	w->spoiled = false;
	w->stale = false;
	w->refused = false;
	w->count = 0;
	do {
		n = send(w->fd, &request, sizeof(request), 0);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(request) ? ERR_OK : ERR_SYSTEM;
}

static enum err keep(struct address_watch *w, const struct addr *a)
{
	if (w->count == w->capacity) {
		size_t capacity = w->capacity == 0 ? 16 : w->capacity * 2;
		struct addr *addrs;

		if (capacity > ADDRESSES_MAX)
			return ERR_LIMIT;
		addrs = alloc_resize(w->addrs, capacity, sizeof(*addrs));
		if (addrs == NULL)
			return ERR_NO_MEMORY;
		w->addrs = addrs;
		w->capacity = capacity;
	}
	w->addrs[w->count++] = *a;
	return ERR_OK;
}

/* Our own address of one row: on a point-to-point link IFA_ADDRESS is the peer's and IFA_LOCAL ours. */
static bool own_address(const struct nlmsghdr *h, struct addr *out_addr)
{
	const struct ifaddrmsg *body = NLMSG_DATA(h);
	size_t left;
	bool found = false, found_local = false;

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*body)))
		return false;
	left = IFA_PAYLOAD(h);
	for (const struct rtattr *a = IFA_RTA(body); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		bool is_local = a->rta_type == IFA_LOCAL;

		if ((a->rta_type != IFA_ADDRESS && !is_local) || found_local)
			continue;
		if (body->ifa_family == AF_INET && RTA_PAYLOAD(a) == 4)
			*out_addr = addr_v4(RTA_DATA(a));
		else if (body->ifa_family == AF_INET6 && RTA_PAYLOAD(a) == 16)
			*out_addr = addr_v6(RTA_DATA(a));
		else
			continue;
		found = true;
		found_local = is_local;
	}
	return found;
}

/* True when the dump under way is complete and good. */
static bool take_message(struct address_watch *w, const struct nlmsghdr *h)
{
	/* Changes made by others carry their numbers, so only a dump's own rows are MULTI, ours and in sequence. */
	bool is_ours = w->asking && h->nlmsg_pid == w->port && h->nlmsg_seq == w->sequence;
	struct addr a;

	if (is_ours && (h->nlmsg_flags & NLM_F_DUMP_INTR) != 0)
		w->spoiled = true;
	switch (h->nlmsg_type) {
	case RTM_NEWADDR:
		if (!is_ours || (h->nlmsg_flags & NLM_F_MULTI) == 0)
			w->stale = true;
		else if (own_address(h, &a) && keep(w, &a) != ERR_OK)
			w->spoiled = true;
		return false;
	case RTM_DELADDR:
		w->stale = true;
		return false;
	case NLMSG_DONE:
		if (!is_ours)
			return false;
		w->asking = false;
		return !w->spoiled;
	case NLMSG_ERROR:
		if (is_ours) {
			w->asking = false;
			w->refused = true;
		}
		return false;
	default:
		return false;
	}
}

/* Read one datagram: OK with whether a list is complete, AGAIN when there is none, SYSTEM. */
static enum err receive(struct address_watch *w, bool *out_complete)
{
	struct sockaddr_nl from = { 0 };
	struct iovec part = { .iov_base = w->received, .iov_len = RECEIVE_LEN };
	struct msghdr m = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t n = recvmsg(w->fd, &m, 0);
	bool complete = false;

	*out_complete = false;
	if (n < 0 && errno == EAGAIN)
		return ERR_AGAIN;
	if (n < 0 && errno == EINTR)
		return ERR_OK;
	if (n < 0 && errno != ENOBUFS)
		return ERR_SYSTEM;
	if (n < 0 || (m.msg_flags & MSG_TRUNC) != 0) {
		/* Something was lost, and it may have been anything. */
		w->stale = true;
		w->spoiled = true;
		return ERR_OK;
	}
	if (from.nl_pid != 0)
		return ERR_OK;
	for (const struct nlmsghdr *h = (const void *)w->received; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
		if (take_message(w, h))
			complete = true;
	}
	*out_complete = complete;
	return ERR_OK;
}

enum err address_watch_read(struct address_watch *w, address_watch_fn *on_list, void *arg)
{
	uint64_t until_ms = clock_mono_ms() + READ_MS;
	enum err e = ask(w);

	while (e == ERR_OK) {
		struct pollfd p = { .fd = w->fd, .events = POLLIN };
		uint64_t now_ms = clock_mono_ms();
		bool complete = false;

		if (now_ms >= until_ms)
			return ERR_AGAIN;
		if (poll(&p, 1, (int)(until_ms - now_ms)) < 0 && errno != EINTR)
			return ERR_SYSTEM;
		e = receive(w, &complete);
		if (e == ERR_AGAIN)
			e = ERR_OK;
		else if (complete)
			break;
		else if (e == ERR_OK && !w->asking)
			e = w->refused ? ERR_SYSTEM : ask(w);
	}
	if (e == ERR_OK)
		on_list(arg, w->addrs, w->count);
	return e;
}

/* Ask, and look again later whether an answer came: also what was asked may be lost. */
static void ask_with_patience(struct address_watch *w)
{
	if (ask(w) != ERR_OK)
		log_limited(&w->limit, LOG_LEVEL_ERROR, "own_addresses_unreadable errno=%d", errno);
	if (loop_timer_start(&w->retry, RETRY_MS) != ERR_OK)
		log_limited(&w->limit, LOG_LEVEL_ERROR, "own_addresses_without_timer");
}

static void on_retry(void *arg)
{
	struct address_watch *w = arg;

	if (loop_watch_start(&w->watch) != ERR_OK)
		log_limited(&w->limit, LOG_LEVEL_ERROR, "own_addresses_unwatched errno=%d", errno);
	ask_with_patience(w);
}

static void on_netlink(void *arg, int fd, unsigned what)
{
	struct address_watch *w = arg;
	bool complete = false;
	enum err e = ERR_OK;

	for (unsigned n = 0; n < DATAGRAMS_PER_WAKEUP && e == ERR_OK && !complete; n++)
		e = receive(w, &complete);
	if (e == ERR_SYSTEM) {
		log_limited(&w->limit, LOG_LEVEL_ERROR, "own_addresses_lost errno=%d", errno);
		loop_watch_stop(&w->watch);
		ask_with_patience(w);
		return;
	}
	if (complete)
		w->on_list(w->arg, w->addrs, w->count);
	/* While a dump is under way or was refused, the retry is. */
	if (w->asking || w->refused)
		return;
	if (w->stale || w->spoiled)
		ask_with_patience(w);
	else
		loop_timer_cancel(&w->retry);
}

enum err address_watch_start(struct address_watch *w, struct loop *loop, address_watch_fn *on_list, void *arg)
{
	enum err e;

	w->on_list = on_list;
	w->arg = arg;
	w->loop = loop;
	loop_timer_init(&w->retry, loop, on_retry, w);
	loop_watch_init(&w->watch, loop, w->fd, LOOP_READ, on_netlink, w);
	e = loop_watch_start(&w->watch);
	if (e != ERR_OK)
		return e;
	e = loop_timer_start(&w->retry, RETRY_MS);
	return e == ERR_OK ? ask(w) : e;
}
