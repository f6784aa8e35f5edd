/*
 * Each option is set, or the caller hears why not. Promises that no policy-bearing option fails in silence; refuses to
 * decide which ones a socket needs. Called by connector, relay, listener and the session.
 */
#include "net/sockopt.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

static enum err set_int(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) == 0 ? ERR_OK : ERR_SYSTEM;
}

static int reserved_from = INT_MAX;

void sockopt_reserve_from(int first)
{
	reserved_from = first;
}

int sockopt_for_guest(int fd)
{
	if (fd < reserved_from)
		return fd;
	close(fd);
	errno = EMFILE;
	return -1;
}

enum err sockopt_open_tcp(enum addr_family family, int *out_fd)
{
	int domain = family == ADDR_V4 ? AF_INET : AF_INET6;
	int fd;

	if (family != ADDR_V4 && family != ADDR_V6)
		return ERR_INVALID;
	fd = sockopt_for_guest(socket(domain, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
	if (fd < 0)
		return ERR_SYSTEM;
	*out_fd = fd;
	return ERR_OK;
}

enum err sockopt_no_delay(int fd)
{
	return set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

enum err sockopt_keepalive(int fd, unsigned idle_s, unsigned interval_s, unsigned count)
{
	/* The same patience for unacknowledged data as for an unanswered probe. */
	uint64_t user_ms = ((uint64_t)idle_s + (uint64_t)interval_s * count) * 1000;

	if (idle_s == 0 || idle_s > INT_MAX || interval_s == 0 || interval_s > INT_MAX ||
	    count == 0 || count > INT_MAX || user_ms > INT_MAX)
		return ERR_INVALID;
	if (set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1) != ERR_OK ||
	    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, (int)idle_s) != ERR_OK ||
	    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, (int)interval_s) != ERR_OK ||
	    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, (int)count) != ERR_OK ||
	    set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)user_ms) != ERR_OK)
		return ERR_SYSTEM;
	return ERR_OK;
}

enum err sockopt_reset_on_close(int fd)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	return setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0 ? ERR_OK : ERR_SYSTEM;
}

bool sockopt_is_delivered(int fd)
{
	/* What the kernel knows goes on behind what the C library's header does. */
	struct {
		struct tcp_info known;
		uint64_t pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
		uint32_t segs_out, segs_in, notsent_bytes;
	} info = { .notsent_bytes = 0 };
	socklen_t len = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 || (info.known.tcpi_unacked == 0 && info.notsent_bytes == 0);
}

enum err sockopt_source(int fd, const struct addr *source)
{
	struct endpoint from = { .addr = *source, .port = 0 };
	struct sockaddr_storage sa;
	socklen_t len;

	if (source->family != ADDR_V4 && source->family != ADDR_V6)
		return ERR_INVALID;
	/* One option for both families: IPv6 sockets take it at the IP level too. */
	if (set_int(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1) != ERR_OK)
		return ERR_SYSTEM;
	len = endpoint_to_sockaddr(&from, &sa);
	return bind(fd, (const struct sockaddr *)&sa, len) == 0 ? ERR_OK : ERR_SYSTEM;
}

enum err sockopt_mark(int fd, uint32_t mark)
{
	return setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) == 0 ? ERR_OK : ERR_SYSTEM;
}

int sockopt_take_error(int fd)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		return errno;
	return error;
}

typedef int name_fn(int fd, struct sockaddr *restrict sa, socklen_t *restrict len);

static enum err endpoint_by(name_fn *name, int fd, struct endpoint *out_endpoint)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);

	if (name(fd, (struct sockaddr *)&sa, &len) != 0)
		return ERR_SYSTEM;
	if (!addr_from_sockaddr((const struct sockaddr *)&sa, out_endpoint))
		return ERR_INVALID;
	return ERR_OK;
}

enum err sockopt_peer(int fd, struct endpoint *out_peer)
{
	return endpoint_by(getpeername, fd, out_peer);
}

enum err sockopt_local(int fd, struct endpoint *out_local)
{
	return endpoint_by(getsockname, fd, out_local);
}
