/* See socket_fake.h. A table of sockets by descriptor; what was closed is seen by the end of its pair. */
#include "socket_fake.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/sockopt.h"

#define SOCKETS_MAX 256

struct fake_origin {
	int fd;       /* the proxy's, borrowed */
	int peer_fd;  /* owned; -1 when the cell is free */
	bool is_dialled;
	struct endpoint to;
	int error;
	uint64_t at_ms; /* when the outcome is there */
};

static struct {
	struct loop *loop;
	socket_fake_dial_fn *on_dial;
	void *arg;
	struct fake_origin all[SOCKETS_MAX];
	size_t count;
} fake;

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len);

/* The newest life of a descriptor. */
static struct fake_origin *find(int fd)
{
	for (size_t i = fake.count; i-- > 0;) {
		if (fake.all[i].fd == fd && fake.all[i].peer_fd >= 0)
			return &fake.all[i];
	}
	return NULL;
}

static void forget(struct fake_origin *o)
{
	close(o->peer_fd);
	o->peer_fd = o->fd = -1;
}

void socket_fake_begin(struct loop *loop, socket_fake_dial_fn *on_dial, void *arg)
{
	assert(fake.count == 0);
	fake.loop = loop;
	fake.on_dial = on_dial;
	fake.arg = arg;
}

/* The other end reads an end of file once the proxy has closed its own. */
static bool proxy_has_closed(const struct fake_origin *o)
{
	char away[4096];
	ssize_t n;

	while ((n = recv(o->peer_fd, away, sizeof(away), MSG_DONTWAIT)) > 0)
		;
	return n == 0 || errno != EAGAIN;
}

size_t socket_fake_end(void)
{
	size_t open = 0;

	for (size_t i = 0; i < fake.count; i++) {
		if (fake.all[i].peer_fd < 0)
			continue;
		open += !proxy_has_closed(&fake.all[i]);
		forget(&fake.all[i]);
	}
	fake.count = 0;
	return open;
}

unsigned socket_fake_ready(int fd, unsigned what)
{
	struct pollfd p = { .fd = fd, .events = 0 };
	struct fake_origin *o = find(fd);
	unsigned ready = 0;

	if (o != NULL && o->is_dialled && (o->at_ms > loop_now_ms(fake.loop) || o->error != 0))
		return o->at_ms <= loop_now_ms(fake.loop) ? what & LOOP_WRITE : 0;
	p.events = (short)((what & LOOP_READ ? POLLIN : 0) | (what & LOOP_WRITE ? POLLOUT : 0));
	if (poll(&p, 1, 0) <= 0)
		return 0;
	if (p.revents & (POLLIN | POLLHUP | POLLERR))
		ready |= LOOP_READ;
	if (p.revents & (POLLOUT | POLLHUP | POLLERR))
		ready |= LOOP_WRITE;
	return ready & what;
}

uint64_t socket_fake_next_ms(void)
{
	uint64_t next_ms = UINT64_MAX, now_ms = loop_now_ms(fake.loop);

	for (size_t i = 0; i < fake.count; i++) {
		const struct fake_origin *o = &fake.all[i];

		if (o->peer_fd >= 0 && o->is_dialled && o->at_ms > now_ms && o->at_ms < next_ms)
			next_ms = o->at_ms;
	}
	return next_ms;
}

int socket_fake_origin(const struct endpoint *at)
{
	for (size_t i = fake.count; i-- > 0;) {
		const struct fake_origin *o = &fake.all[i];

		if (o->peer_fd >= 0 && o->is_dialled && o->error == 0 && endpoint_equal(&o->to, at))
			return o->peer_fd;
	}
	return -1;
}

/* --- net/sockopt.h --- */

enum err sockopt_open_tcp(enum addr_family family, int *out_fd)
{
	int ends[2];

	if (fake.count == SOCKETS_MAX || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
		errno = EMFILE;
		return ERR_SYSTEM;
	}
	/* The descriptor lives again: whoever had it before has closed it. */
	for (struct fake_origin *old = find(ends[0]); old != NULL; old = find(ends[0]))
		old->fd = -1;
	fake.all[fake.count++] = (struct fake_origin){ .fd = ends[0], .peer_fd = ends[1] };
	*out_fd = ends[0];
	return ERR_OK;
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	struct fake_origin *o = find(fd);
	uint64_t after_ms = 0;
	bool is_known;

	assert(o != NULL && !o->is_dialled);
	is_known = addr_from_sockaddr(to, &o->to);
	assert(is_known);
	o->is_dialled = true;
	fake.on_dial(fake.arg, &o->to, &o->error, &after_ms);
	o->at_ms = after_ms == UINT64_MAX ? UINT64_MAX : loop_now_ms(fake.loop) + after_ms;
	errno = EINPROGRESS;
	if (after_ms == 0)
		errno = o->error;
	return after_ms == 0 && o->error == 0 ? 0 : -1;
}

enum err sockopt_no_delay(int fd)
{
	return ERR_OK;
}

enum err sockopt_keepalive(int fd, unsigned idle_s, unsigned interval_s, unsigned count)
{
	return ERR_OK;
}

enum err sockopt_reset_on_close(int fd)
{
	return ERR_OK;
}

bool sockopt_is_delivered(int fd)
{
	return true;
}

enum err sockopt_source(int fd, const struct addr *source)
{
	return ERR_OK;
}

enum err sockopt_mark(int fd, uint32_t mark)
{
	return ERR_OK;
}

int sockopt_for_guest(int fd)
{
	return fd;
}

int sockopt_take_error(int fd)
{
	struct fake_origin *o = find(fd);

	return o == NULL ? 0 : o->error;
}

enum err sockopt_peer(int fd, struct endpoint *out_peer)
{
	struct fake_origin *o = find(fd);

	if (o == NULL || !o->is_dialled)
		return ERR_SYSTEM;
	*out_peer = o->to;
	return ERR_OK;
}

enum err sockopt_local(int fd, struct endpoint *out_local)
{
	*out_local = (struct endpoint){ .addr = addr_v4((const uint8_t[4]){ 192, 0, 2, 254 }), .port = 40000 };
	return ERR_OK;
}
