/*
 * The one door to c-ares (written against 1.18.1), used as transport: ares_send of bytes made by wire/dns_query, raw bytes back.
 * One channel carries one query, so that every query gets a fresh source port and a cancel ends just that one. The channel's
 * own clock never decides: it is told to try once and wait for longer than we ever do. Called by net/resolver; judges nothing.
 */
#include "net/ares_link.h"

#include <ares.h>
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/list.h"
#include "net/sockopt.h"

#define CHANNELS_DEFAULT 32
#define MISFITS_DEFAULT 64
#define LIBRARY_TIMEOUT_MS 3600000 /* never reached: ours is at most ARES_LINK_TIMEOUT_MAX_MS */
#define SOCKETS_PER_CHANNEL 2      /* one server, UDP and TCP */
#define RCODE_AT 3
#define RCODE_FORMERR 1
#define RCODE_SERVFAIL 2

enum state {
	STATE_IDLE,
	STATE_ASKING, /* the library has it */
	STATE_DONE,   /* the outcome is known and waits for the end of the turn */
};

/* Where the TCP bytes handed to the library stand: its reads never cross the border of length or message. */
struct stream {
	uint8_t length_seen; /* bytes of the length prefix */
	uint16_t length;     /* of the message */
	uint16_t at;         /* bytes of the message seen */
};

struct socket_watch {
	int fd;        /* the library's; -1: free slot */
	unsigned what;
	struct loop_watch watch;
};

/* A channel, and the query that it carries while it is not idle. */
struct ares_link_query {
	struct ares_link *link; /* borrowed */
	struct list_node node;  /* in link->idle while idle */
	ares_channel channel;   /* owned */
	enum state state;
	bool is_hopeless;       /* cannot go on; ended once the library has returned */
	bool require_case;
	bool case_echoed;
	unsigned misfits;
	const struct dns_query *query; /* borrowed until done */
	struct endpoint server;
	ares_link_done_fn *on_done;
	void *arg;                     /* borrowed until done */
	enum ares_link_status status;
	uint8_t *answer;               /* owned; with STATE_DONE and ANSWER */
	size_t answer_len;
	struct loop_timer timeout;
	struct loop_deferred done;
	struct stream stream;
	struct socket_watch watches[SOCKETS_PER_CHANNEL];
};

struct ares_link {
	struct loop *loop; /* borrowed */
	struct ares_link_sockets sockets;
	struct ares_link_query *channels; /* owned array */
	unsigned channel_count;           /* initialised ones */
	unsigned misfits_max;
	struct list idle;
	uint64_t misfit_count;
};

/* --- the real sockets --- */

static int real_open(void *arg, int domain, int type, int protocol)
{
	return sockopt_for_guest(socket(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol));
}

static int real_close(void *arg, int fd)
{
	return close(fd);
}

static int real_connect(void *arg, int fd, const struct sockaddr *to, socklen_t len)
{
	return connect(fd, to, len);
}

static ssize_t real_recv(void *arg, int fd, void *bytes, size_t len, int flags, struct sockaddr *from, socklen_t *from_len)
{
	return recvfrom(fd, bytes, len, flags, from, from_len);
}

/* sendmsg rather than writev: a server that has gone must not raise SIGPIPE. */
static ssize_t real_send(void *arg, int fd, const struct iovec *parts, int count)
{
	struct msghdr message = { .msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = (size_t)count };

	return sendmsg(fd, &message, MSG_NOSIGNAL);
}

static struct ares_link_sockets choose_sockets(const struct ares_link_sockets *given)
{
	struct ares_link_sockets s = { 0 };

	if (given != NULL)
		s = *given;
	s.open = s.open != NULL ? s.open : real_open;
	s.close = s.close != NULL ? s.close : real_close;
	s.connect = s.connect != NULL ? s.connect : real_connect;
	s.recv = s.recv != NULL ? s.recv : real_recv;
	s.send = s.send != NULL ? s.send : real_send;
	return s;
}

/* --- what the library calls for its sockets --- */

static ares_socket_t on_socket(int domain, int type, int protocol, void *data)
{
	struct ares_link_query *q = data;

	if (type == SOCK_STREAM)
		q->stream = (struct stream){ 0 };
	return q->link->sockets.open(q->link->sockets.arg, domain, type, protocol);
}

static int on_close(ares_socket_t fd, void *data)
{
	struct ares_link_query *q = data;

	return q->link->sockets.close(q->link->sockets.arg, fd);
}

static int on_connect(ares_socket_t fd, const struct sockaddr *to, ares_socklen_t len, void *data)
{
	struct ares_link_query *q = data;

	return q->link->sockets.connect(q->link->sockets.arg, fd, to, len);
}

static ares_ssize_t on_send(ares_socket_t fd, const struct iovec *parts, int count, void *data)
{
	struct ares_link_query *q = data;

	return q->link->sockets.send(q->link->sockets.arg, fd, parts, count);
}

/*
 * The library takes FORMERR for a server without EDNS: it would cut our OPT off, ask again, leave EDNS off on this channel for
 * ever, and read freed memory while the query is still queued for TCP (1.18.1; found by fuzz_resolver). To us both rcodes mean
 * that the server failed, so it gets to see the other one.
 */
static void blunt_formerr(uint8_t *rcode_byte)
{
	if ((*rcode_byte & 0x0f) == RCODE_FORMERR)
		*rcode_byte = (uint8_t)((*rcode_byte & 0xf0) | RCODE_SERVFAIL);
}

static void follow_stream(struct stream *s, uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (s->length_seen < 2) {
			s->length = (uint16_t)(s->length << 8 | bytes[i]);
			s->length_seen++;
			continue;
		}
		if (s->at == RCODE_AT)
			blunt_formerr(&bytes[i]);
		if (++s->at == s->length)
			*s = (struct stream){ 0 };
	}
}

static void count_misfit(struct ares_link_query *q)
{
	q->link->misfit_count++;
	if (++q->misfits >= q->link->misfits_max)
		q->is_hopeless = true;
}

static bool comes_from_server(const struct ares_link_query *q, const struct sockaddr *from)
{
	struct endpoint at;

	return addr_from_sockaddr(from, &at) && endpoint_equal(&at, &q->server);
}

static bool fits(const struct ares_link_query *q, const uint8_t *message, size_t len, bool *out_exact)
{
	enum dns_fit fit = dns_query_fits(q->query, message, len);

	if (fit == DNS_FIT_MISFIT || (fit == DNS_FIT_CASE_DIFFERS && q->require_case))
		return false;
	*out_exact = fit == DNS_FIT_EXACT;
	return true;
}

/*
 * Datagrams that are no answer to this query are dropped here, and the library goes on waiting for one that is (RFC 5452
 * section 9.1; it compares neither QR, nor case, nor port itself). TCP has no `from` and passes; it is checked whole.
 */
static ares_ssize_t on_recv(ares_socket_t fd, void *bytes, size_t len, int flags, struct sockaddr *from,
			    ares_socklen_t *from_len, void *data)
{
	struct ares_link_query *q = data;
	const struct ares_link_sockets *sockets = &q->link->sockets;
	socklen_t room = from_len == NULL ? 0 : *from_len;
	bool exact;

	while (!q->is_hopeless) {
		ssize_t got = sockets->recv(sockets->arg, fd, bytes, len, flags, from, from_len);

		if (from == NULL && got > 0)
			follow_stream(&q->stream, bytes, (size_t)got);
		if (from == NULL || got < 0)
			return got;
		if (q->state == STATE_ASKING && comes_from_server(q, from) && fits(q, bytes, (size_t)got, &exact)) {
			blunt_formerr((uint8_t *)bytes + RCODE_AT);
			return got;
		}
		count_misfit(q);
		*from_len = room;
	}
	errno = EAGAIN;
	return -1;
}

/* --- ends --- */

/* Unlink first, call back second: the channel is idle before its user hears of it. */
static void deliver(void *arg)
{
	struct ares_link_query *q = arg;
	ares_link_done_fn *on_done = q->on_done;
	void *on_done_arg = q->arg;
	uint8_t *answer = q->answer;

	q->answer = NULL;
	q->query = NULL;
	q->state = STATE_IDLE;
	list_push_front(&q->link->idle, &q->node);
	on_done(on_done_arg, q->status, answer, q->answer_len, q->case_echoed);
	alloc_free(answer);
}

static void finish(struct ares_link_query *q, enum ares_link_status status)
{
	q->status = status;
	q->state = STATE_DONE;
	loop_timer_cancel(&q->timeout);
	loop_defer(q->link->loop, &q->done, deliver, q);
}

/* Take the query from the library; only outside its callbacks. on_answer sees that the state is another one. */
static void end_early(struct ares_link_query *q, enum ares_link_status status)
{
	finish(q, status);
	ares_cancel(q->channel);
}

static void on_answer(void *arg, int status, int timeouts, unsigned char *bytes, int len)
{
	struct ares_link_query *q = arg;

	if (q->state != STATE_ASKING)
		return;
	if (status != ARES_SUCCESS) {
		finish(q, status == ARES_ETIMEOUT ? ARES_LINK_TIMEOUT : ARES_LINK_FAILED);
		return;
	}
	if (!fits(q, bytes, (size_t)len, &q->case_echoed)) {
		count_misfit(q);
		finish(q, ARES_LINK_FAILED);
		return;
	}
	q->answer = alloc_copy(bytes, (size_t)len);
	q->answer_len = (size_t)len;
	finish(q, q->answer == NULL ? ARES_LINK_FAILED : ARES_LINK_ANSWER);
}

static void on_timeout(void *arg)
{
	end_early(arg, ARES_LINK_TIMEOUT);
}

/* --- watching the library's sockets --- */

static void on_ready(void *arg, int fd, unsigned what)
{
	struct ares_link_query *q = arg;

	ares_process_fd(q->channel, (what & LOOP_READ) != 0 ? fd : ARES_SOCKET_BAD,
			(what & LOOP_WRITE) != 0 ? fd : ARES_SOCKET_BAD);
	if (q->state == STATE_ASKING && q->is_hopeless)
		end_early(q, ARES_LINK_FAILED);
}

static struct socket_watch *find_watch(struct ares_link_query *q, int fd)
{
	for (size_t i = 0; i < SOCKETS_PER_CHANNEL; i++) {
		if (q->watches[i].fd == fd)
			return &q->watches[i];
	}
	return NULL;
}

/*
 * The library opens, wants something else of, or is about to close `fd`. The same number may go and come back within one
 * ares_process_fd, so a watch is bound to the number only until it is told to end.
 */
static void on_state(void *data, ares_socket_t fd, int readable, int writable)
{
	struct ares_link_query *q = data;
	struct socket_watch *w = find_watch(q, fd);
	unsigned what = (readable ? LOOP_READ : 0u) | (writable ? LOOP_WRITE : 0u);

	if (w != NULL && w->what == what)
		return;
	if (w != NULL) {
		loop_watch_stop(&w->watch);
		w->fd = -1;
		w->what = 0;
	}
	if (what == 0)
		return;
	if (w == NULL)
		w = find_watch(q, -1);
	if (w == NULL) {
		q->is_hopeless = true;
		return;
	}
	w->fd = fd;
	w->what = what;
	loop_watch_init(&w->watch, q->link->loop, fd, what, on_ready, q);
	if (loop_watch_start(&w->watch) != ERR_OK)
		q->is_hopeless = true;
}

/* --- channels --- */

static void *resize_for_library(void *ptr, size_t size)
{
	return alloc_resize(ptr, 1, size);
}

/*
 * Every option is given, so that the library looks for none in files or in its environment. The server is a placeholder:
 * the real one is set before every query.
 */
static enum err open_channel(struct ares_link_query *q)
{
	static const struct ares_socket_functions functions = { on_socket, on_close, on_connect, on_recv, on_send };
	struct in_addr nobody = { 0 };
	struct ares_options o = {
		.flags = ARES_FLAG_NOCHECKRESP | ARES_FLAG_EDNS,
		.timeout = LIBRARY_TIMEOUT_MS,
		.tries = 1,
		.ndots = 1,
		.udp_port = 53,
		.tcp_port = 53,
		.servers = &nobody,
		.nservers = 1,
		.lookups = (char[]){ "b" },
		.sock_state_cb = on_state,
		.sock_state_cb_data = q,
		.ednspsz = DNS_EDNS_PAYLOAD,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS | ARES_OPT_UDP_PORT |
		   ARES_OPT_TCP_PORT | ARES_OPT_SOCK_SNDBUF | ARES_OPT_SOCK_RCVBUF | ARES_OPT_SERVERS | ARES_OPT_DOMAINS |
		   ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB | ARES_OPT_SORTLIST | ARES_OPT_NOROTATE | ARES_OPT_EDNSPSZ;
	int status = ares_init_options(&q->channel, &o, mask);

	if (status != ARES_SUCCESS)
		return status == ARES_ENOMEM ? ERR_NO_MEMORY : ERR_SYSTEM;
	ares_set_socket_functions(q->channel, &functions, q);
	return ERR_OK;
}

static enum err set_server(struct ares_link_query *q, const struct endpoint *server)
{
	struct ares_addr_port_node node = { .udp_port = server->port, .tcp_port = server->port };
	int status;

	if (server->addr.family == ADDR_V4) {
		node.family = AF_INET;
		memcpy(&node.addr.addr4, server->addr.octets, sizeof(node.addr.addr4));
	} else {
		node.family = AF_INET6;
		memcpy(&node.addr.addr6, server->addr.octets, sizeof(node.addr.addr6));
	}
	status = ares_set_servers_ports(q->channel, &node);
	if (status != ARES_SUCCESS)
		return status == ARES_ENOMEM ? ERR_NO_MEMORY : ERR_SYSTEM;
	q->server = *server;
	return ERR_OK;
}

/* --- from outside --- */

enum err ares_link_create(struct loop *loop, const struct ares_link_options *options, struct ares_link **out_link)
{
	static const struct ares_link_options defaults;
	const struct ares_link_options *o = options != NULL ? options : &defaults;
	unsigned count = o->channels != 0 ? o->channels : CHANNELS_DEFAULT;
	struct ares_link *l;
	enum err err = ERR_NO_MEMORY;

	if (ares_library_init_mem(ARES_LIB_INIT_ALL, alloc_zeroed, alloc_free, resize_for_library) != ARES_SUCCESS)
		return ERR_SYSTEM;
	l = alloc_zeroed(sizeof(*l));
	if (l == NULL)
		goto out;
	l->loop = loop;
	l->sockets = choose_sockets(o->sockets);
	l->misfits_max = o->misfits_max != 0 ? o->misfits_max : MISFITS_DEFAULT;
	list_init(&l->idle);
	l->channels = alloc_array(count, sizeof(*l->channels));
	if (l->channels == NULL)
		goto out;
	for (; l->channel_count < count; l->channel_count++) {
		struct ares_link_query *q = &l->channels[l->channel_count];

		q->link = l;
		for (size_t i = 0; i < SOCKETS_PER_CHANNEL; i++)
			q->watches[i].fd = -1;
		loop_timer_init(&q->timeout, loop, on_timeout, q);
		err = open_channel(q);
		if (err != ERR_OK)
			goto out;
		list_push_back(&l->idle, &q->node);
	}
	*out_link = l;
	return ERR_OK;
out:
	if (l == NULL)
		ares_library_cleanup();
	ares_link_destroy(l);
	return err;
}

void ares_link_destroy(struct ares_link *l)
{
	if (l == NULL)
		return;
	assert(ares_link_busy_count(l) == 0);
	for (unsigned i = 0; i < l->channel_count; i++)
		ares_destroy(l->channels[i].channel);
	alloc_free(l->channels);
	alloc_free(l);
	ares_library_cleanup();
}

bool ares_link_has_room(const struct ares_link *l)
{
	return l->idle.count > 0;
}

enum err ares_link_ask(struct ares_link *l, const struct endpoint *server, const struct dns_query *query, uint64_t timeout_ms,
		       bool require_case, ares_link_done_fn *on_done, void *arg, struct ares_link_query **out_query)
{
	struct list_node *node = list_first(&l->idle);
	struct ares_link_query *q;
	enum err err;

	if (server->port == 0 || (server->addr.family != ADDR_V4 && server->addr.family != ADDR_V6))
		return ERR_INVALID;
	if (node == NULL)
		return ERR_AGAIN;
	q = CONTAINER_OF(node, struct ares_link_query, node);
	err = set_server(q, server);
	if (err != ERR_OK)
		return err;
	if (timeout_ms > ARES_LINK_TIMEOUT_MAX_MS)
		timeout_ms = ARES_LINK_TIMEOUT_MAX_MS;
	err = loop_timer_start(&q->timeout, timeout_ms);
	if (err != ERR_OK)
		return err;
	list_remove(&l->idle, node);
	q->state = STATE_ASKING;
	q->is_hopeless = q->case_echoed = false;
	q->require_case = require_case;
	q->misfits = 0;
	q->query = query;
	q->on_done = on_done;
	q->arg = arg;
	q->answer_len = 0;
	/* May call on_answer at once (no route, no memory); that only stores and defers. */
	ares_send(q->channel, query->bytes, (int)query->len, on_answer, q);
	if (q->state == STATE_ASKING && q->is_hopeless)
		end_early(q, ARES_LINK_FAILED);
	*out_query = q;
	return ERR_OK;
}

void ares_link_cancel(struct ares_link_query *q)
{
	if (q == NULL)
		return;
	loop_timer_cancel(&q->timeout);
	loop_deferred_cancel(q->link->loop, &q->done);
	alloc_free(q->answer);
	q->answer = NULL;
	q->query = NULL;
	q->state = STATE_IDLE;
	ares_cancel(q->channel);
	list_push_front(&q->link->idle, &q->node);
}

uint64_t ares_link_misfit_count(const struct ares_link *l)
{
	return l->misfit_count;
}

unsigned ares_link_busy_count(const struct ares_link *l)
{
	return l->channel_count - (unsigned)l->idle.count;
}

unsigned ares_link_channel_count(const struct ares_link *l)
{
	return l->channel_count;
}
