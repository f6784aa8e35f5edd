/* See dns_net.h. Everything that will happen to a socket is one list, in the order of its time. */
#include "dns_net.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/list.h"
#include "loop_fake.h"

#define FD_FIRST 1000
#define SOCKETS_MAX 64
#define SENT_MAX 1024

struct arrival {
	struct list_node node;
	uint64_t at_ms;
	bool is_end;
	int code;             /* of an end */
	struct endpoint from; /* of a datagram */
	size_t len, taken;
	uint8_t bytes[];
};

struct fake_socket {
	bool is_open, is_tcp, is_connected;
	uint64_t connected_at_ms;
	struct endpoint server;
	struct list arrivals; /* of struct arrival, owned, by time */
	uint8_t sent[SENT_MAX]; /* TCP: what has not yet made a whole query */
	size_t sent_len;
};

struct dns_net {
	struct loop *loop; /* borrowed */
	dns_net_query_fn *on_query;
	void *arg;
	struct dns_net_faults faults;
	struct fake_socket sockets[SOCKETS_MAX];
	size_t open_count, opened_count;
};

static struct fake_socket *at_fd(struct dns_net *net, int fd)
{
	assert(fd >= FD_FIRST && fd < FD_FIRST + SOCKETS_MAX);
	assert(net->sockets[fd - FD_FIRST].is_open);
	return &net->sockets[fd - FD_FIRST];
}

static struct arrival *first_arrival(const struct fake_socket *s)
{
	struct list_node *n = list_first(&s->arrivals);

	return n == NULL ? NULL : CONTAINER_OF(n, struct arrival, node);
}

/* --- the system calls --- */

static int fake_open(void *arg, int domain, int type, int protocol)
{
	struct dns_net *net = arg;

	if (net->faults.open != 0) {
		errno = net->faults.open;
		return -1;
	}
	for (int i = 0; i < SOCKETS_MAX; i++) {
		struct fake_socket *s = &net->sockets[i];

		if (s->is_open)
			continue;
		*s = (struct fake_socket){ .is_open = true, .is_tcp = type == SOCK_STREAM };
		list_init(&s->arrivals);
		net->open_count++;
		net->opened_count++;
		return FD_FIRST + i;
	}
	errno = EMFILE;
	return -1;
}

static int fake_close(void *arg, int fd)
{
	struct dns_net *net = arg;
	struct fake_socket *s = at_fd(net, fd);
	struct list_node *n;

	while ((n = list_pop_front(&s->arrivals)) != NULL)
		alloc_free(CONTAINER_OF(n, struct arrival, node));
	s->is_open = false;
	net->open_count--;
	return 0;
}

static int fake_connect(void *arg, int fd, const struct sockaddr *to, socklen_t len)
{
	struct dns_net *net = arg;
	struct fake_socket *s = at_fd(net, fd);
	int fault = s->is_tcp ? net->faults.connect_tcp : net->faults.connect_udp;
	bool known = addr_from_sockaddr(to, &s->server);

	assert(known);
	if (fault != 0) {
		errno = fault;
		return -1;
	}
	s->is_connected = true;
	s->connected_at_ms = loop_now_ms(net->loop) + (s->is_tcp ? net->faults.connect_tcp_ms : 0);
	if (s->connected_at_ms == loop_now_ms(net->loop))
		return 0;
	errno = EINPROGRESS;
	return -1;
}

static ssize_t take_end(const struct arrival *a)
{
	errno = a->code;
	return a->code == 0 ? 0 : -1;
}

static ssize_t fake_recv(void *arg, int fd, void *bytes, size_t len, int flags, struct sockaddr *from, socklen_t *from_len)
{
	struct dns_net *net = arg;
	struct fake_socket *s = at_fd(net, fd);
	struct arrival *a = first_arrival(s);
	size_t count;

	if (a == NULL || a->at_ms > loop_now_ms(net->loop)) {
		errno = EAGAIN;
		return -1;
	}
	if (a->is_end)
		return take_end(a);
	count = a->len - a->taken < len ? a->len - a->taken : len;
	memcpy(bytes, a->bytes + a->taken, count);
	a->taken += count;
	if (from != NULL) {
		struct sockaddr_storage sa;
		socklen_t sa_len = endpoint_to_sockaddr(&a->from, &sa);

		memcpy(from, &sa, sa_len < *from_len ? sa_len : *from_len);
		*from_len = sa_len;
	}
	if (!s->is_tcp || a->taken == a->len) {
		list_remove(&s->arrivals, &a->node);
		alloc_free(a);
	}
	return (ssize_t)count;
}

static ssize_t send_stream(struct dns_net *net, int fd, struct fake_socket *s, const uint8_t *bytes, size_t len)
{
	size_t want;

	if (net->faults.half_sends && len > 1)
		len = 1;
	assert(len <= SENT_MAX - s->sent_len);
	memcpy(s->sent + s->sent_len, bytes, len);
	s->sent_len += len;
	want = s->sent_len < 2 ? SENT_MAX : 2u + (size_t)(s->sent[0] << 8 | s->sent[1]);
	if (s->sent_len >= want) {
		s->sent_len = 0;
		net->on_query(net->arg, net, fd, true, &s->server, s->sent + 2, want - 2);
	}
	return (ssize_t)len;
}

static ssize_t fake_send(void *arg, int fd, const struct iovec *parts, int count)
{
	struct dns_net *net = arg;
	struct fake_socket *s = at_fd(net, fd);
	uint8_t bytes[SENT_MAX];
	size_t len = 0;

	if (net->faults.send != 0) {
		errno = net->faults.send;
		return -1;
	}
	if (!s->is_connected || loop_now_ms(net->loop) < s->connected_at_ms) {
		errno = EAGAIN;
		return -1;
	}
	for (int i = 0; i < count; i++) {
		assert(parts[i].iov_len <= sizeof(bytes) - len);
		memcpy(bytes + len, parts[i].iov_base, parts[i].iov_len);
		len += parts[i].iov_len;
	}
	if (s->is_tcp)
		return send_stream(net, fd, s, bytes, len);
	net->on_query(net->arg, net, fd, false, &s->server, bytes, len);
	return (ssize_t)len;
}

/* --- readiness --- */

unsigned dns_net_ready(void *arg, int fd, unsigned what)
{
	struct dns_net *net = arg;
	struct fake_socket *s = at_fd(net, fd);
	struct arrival *a = first_arrival(s);
	unsigned ready = 0;

	if (a != NULL && a->at_ms <= loop_now_ms(net->loop))
		ready |= LOOP_READ;
	if (s->is_connected && s->connected_at_ms <= loop_now_ms(net->loop))
		ready |= LOOP_WRITE;
	return ready & what;
}

uint64_t dns_net_next_ms(void *arg)
{
	struct dns_net *net = arg;
	uint64_t now_ms = loop_now_ms(net->loop), next_ms = UINT64_MAX;

	for (size_t i = 0; i < SOCKETS_MAX; i++) {
		struct fake_socket *s = &net->sockets[i];
		struct arrival *a = s->is_open ? first_arrival(s) : NULL;

		if (a != NULL && a->at_ms > now_ms && a->at_ms < next_ms)
			next_ms = a->at_ms;
		if (s->is_open && s->is_connected && s->connected_at_ms > now_ms && s->connected_at_ms < next_ms)
			next_ms = s->connected_at_ms;
	}
	return next_ms;
}

/* --- for the script --- */

static void schedule(struct dns_net *net, int fd, struct arrival *a, uint64_t after_ms)
{
	struct fake_socket *s = at_fd(net, fd);
	struct list_node *where = s->arrivals.head.prev;

	a->at_ms = loop_now_ms(net->loop) + after_ms;
	while (where != &s->arrivals.head && CONTAINER_OF(where, struct arrival, node)->at_ms > a->at_ms)
		where = where->prev;
	list_insert_after(&s->arrivals, where, &a->node);
}

void dns_net_arrive(struct dns_net *net, int fd, const struct endpoint *from, const uint8_t *bytes, size_t len, uint64_t after_ms)
{
	struct arrival *a = alloc_zeroed(sizeof(*a) + len);

	assert((from == NULL) == at_fd(net, fd)->is_tcp);
	if (a == NULL || (from == NULL && len == 0)) {
		alloc_free(a);
		return;
	}
	if (from != NULL)
		a->from = *from;
	a->len = len;
	memcpy(a->bytes, bytes, len);
	schedule(net, fd, a, after_ms);
}

void dns_net_end(struct dns_net *net, int fd, int code, uint64_t after_ms)
{
	struct arrival *a = alloc_zeroed(sizeof(*a));

	if (a == NULL)
		return;
	a->is_end = true;
	a->code = code;
	schedule(net, fd, a, after_ms);
}

struct dns_net *dns_net_create(struct loop *loop, dns_net_query_fn *on_query, void *arg)
{
	struct dns_net *net = alloc_zeroed(sizeof(*net));

	if (net == NULL)
		return NULL;
	net->loop = loop;
	net->on_query = on_query;
	net->arg = arg;
	loop_fake_script(loop, dns_net_ready, dns_net_next_ms, net);
	return net;
}

void dns_net_destroy(struct dns_net *net)
{
	if (net == NULL)
		return;
	assert(net->open_count == 0);
	loop_fake_script(net->loop, NULL, NULL, NULL);
	alloc_free(net);
}

struct ares_link_sockets dns_net_sockets(struct dns_net *net)
{
	return (struct ares_link_sockets){ fake_open, fake_close, fake_connect, fake_recv, fake_send, net };
}

struct dns_net_faults *dns_net_faults(struct dns_net *net)
{
	return &net->faults;
}

bool dns_net_owns(int fd)
{
	return fd >= FD_FIRST;
}

size_t dns_net_open_count(const struct dns_net *net)
{
	return net->open_count;
}

size_t dns_net_opened_count(const struct dns_net *net)
{
	return net->opened_count;
}
