/*
 * Control connections over SOCK_SEQPACKET: one packet is one message. Promises that only whole, known messages of the
 * sides allowed reach the owner, with exactly the descriptors their row asks for, and that nothing received leaks.
 * Refuses to know what a message means. Called by daemon and sidecar; control/client shares the packet functions.
 */
#include "control/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/list.h"
#include "control/packet_internal.h"

#define BACKLOG 64
#define MESSAGES_PER_TURN 32 /* so that one busy peer does not keep the loop */
#define RESERVE 16384        /* bytes beyond queue_max for small messages */
#define SMALL 1024
#define RETRY_MS 10
#define FDS_MAX 4            /* accepted with a packet before it is judged; more truncate and end the channel */

struct packet {
	struct list_node node;
	int fd; /* owned; -1: none */
	size_t len;
	uint8_t bytes[];
};

struct channel {
	struct loop *loop; /* borrowed */
	int fd;            /* owned */
	unsigned from;
	struct channel_peer peer;
	channel_message_fn *on_message;
	channel_closed_fn *on_closed;
	channel_drained_fn *on_drained; /* NULL: nobody asked */
	void *arg; /* borrowed */
	struct loop_watch readable;
	struct loop_watch *writable; /* lent while packets wait for room */
	struct loop_timer retry;     /* started while they wait for something else */
	struct list out;             /* of struct packet */
	size_t queued, queue_max;    /* bytes */
	enum err broken;             /* why; OK while it works */
	bool closed;                 /* by the owner; freed at the end of the turn */
	struct loop_deferred later;
};

static bool fill_address(const char *path, struct sockaddr_un *out_sa)
{
	size_t len = strlen(path);

	/* An abstract or empty name has no owner and no mode. */
	if (len == 0 || len >= sizeof(out_sa->sun_path))
		return false;
	*out_sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(out_sa->sun_path, path, len);
	return true;
}

static enum err err_of_connect(int error)
{
	switch (error) {
	case ENOENT:
		return ERR_NOT_FOUND;
	case ECONNREFUSED:
	case EPROTOTYPE:
		return ERR_CLOSED;
	case EACCES:
	case EPERM:
		return ERR_DENIED;
	case EAGAIN:
		return ERR_AGAIN;
	default:
		return ERR_SYSTEM;
	}
}

enum err channel_dial(const char *path, unsigned wait_ms, int *out_fd)
{
	struct timeval patience = { .tv_sec = wait_ms / 1000,
				    .tv_usec = (suseconds_t)(wait_ms % 1000) * 1000 };
	struct sockaddr_un sa;
	enum err e;
	int fd;

	if (!fill_address(path, &sa))
		return ERR_INVALID;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return ERR_SYSTEM;
	if (wait_ms == 0)
		patience.tv_usec = 1;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0 &&
	    connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0) {
		patience = (struct timeval){ 0 };
		if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0) {
			*out_fd = fd;
			return ERR_OK;
		}
	}
	e = err_of_connect(errno);
	close(fd);
	return e;
}

/* Does anything listen on this socket file? Whatever cannot be told counts as yes. */
static bool is_abandoned(const struct sockaddr_un *sa, int type)
{
	int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool abandoned;

	if (fd < 0)
		return false;
	abandoned = connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) != 0 &&
		    errno == ECONNREFUSED;
	close(fd);
	return abandoned;
}

/* Lock the folder of `path`, so that two who start at once do not remove each other's fresh socket. */
static int lock_folder(const char *path)
{
	char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
	const char *slash = strrchr(path, '/');
	size_t len = slash == NULL ? 0 : (size_t)(slash - path);
	int fd;

	memcpy(folder, path, len);
	folder[len] = '\0';
	fd = open(slash == NULL ? "." : len == 0 ? "/" : folder,
		  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static enum err bind_fresh(int fd, const struct sockaddr_un *sa)
{
	struct stat st;

	if (bind(fd, (const struct sockaddr *)sa, sizeof(*sa)) == 0)
		return ERR_OK;
	if (errno != EADDRINUSE)
		return errno == EACCES || errno == EPERM ? ERR_DENIED : ERR_SYSTEM;
	if (lstat(sa->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode) ||
	    !is_abandoned(sa, SOCK_SEQPACKET))
		return ERR_EXISTS;
	if (unlink(sa->sun_path) != 0 && errno != ENOENT)
		return ERR_SYSTEM;
	return bind(fd, (const struct sockaddr *)sa, sizeof(*sa)) == 0 ? ERR_OK : ERR_SYSTEM;
}

enum err channel_listen(const char *path, int *out_fd)
{
	struct sockaddr_un sa;
	enum err e = ERR_SYSTEM;
	int fd, lock;

	if (!fill_address(path, &sa))
		return ERR_INVALID;
	lock = lock_folder(path);
	if (lock < 0)
		return errno == EWOULDBLOCK ? ERR_AGAIN : ERR_SYSTEM;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	/* The file takes its mode from the socket: never wider than wanted, not even for a moment. */
	if (fd < 0 || fchmod(fd, 0660) != 0)
		goto out;
	e = bind_fresh(fd, &sa);
	if (e != ERR_OK)
		goto out;
	/* Only now, for a umask that took more away. */
	if (chmod(path, 0660) != 0 || listen(fd, BACKLOG) != 0) {
		e = ERR_SYSTEM;
		unlink(path);
		goto out;
	}
	*out_fd = fd;
	fd = -1;
out:
	if (fd >= 0)
		close(fd);
	close(lock);
	return e;
}

enum err channel_accept(int listen_fd, int *out_fd)
{
	int fd;

	do {
		fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	} while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
	if (fd < 0)
		return errno == EAGAIN ? ERR_AGAIN : ERR_SYSTEM;
	*out_fd = fd;
	return ERR_OK;
}

/* Take the descriptors out of the ancillary data; all of them become ours, wanted or not. */
static unsigned take_fds(struct msghdr *header, int fds[FDS_MAX])
{
	unsigned count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c != NULL; c = CMSG_NXTHDR(header, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i + sizeof(int) <= bytes; i += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i, sizeof(fd));
			if (count < FDS_MAX)
				fds[count++] = fd;
			else
				close(fd);
		}
	}
	return count;
}

enum err packet_receive(int fd, uint8_t packet[CTL_MSG_MAX], unsigned from, struct ctl_msg *out_msg,
			int *out_fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} ancillary;
	struct iovec iov = { .iov_base = packet, .iov_len = CTL_MSG_MAX };
	struct msghdr header = { .msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = &ancillary,
				 .msg_controllen = sizeof(ancillary) };
	int fds[FDS_MAX];
	unsigned fd_count;
	struct ctl_msg msg;
	const struct ctl_row *row;
	ssize_t n;

	do {
		n = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? ERR_AGAIN : ERR_CLOSED;
	fd_count = take_fds(&header, fds);
	if (n == 0 && fd_count == 0)
		return ERR_CLOSED;
	if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
	    ctl_msg_read(packet, (size_t)n, &msg) != PARSED_OK)
		goto bad;
	row = ctl_row(msg.type);
	if ((row->from & from) == 0 || fd_count != (row->takes_fd ? 1U : 0U))
		goto bad;
	*out_msg = msg;
	*out_fd = fd_count == 1 ? fds[0] : -1;
	return ERR_OK;
bad:
	for (unsigned i = 0; i < fd_count; i++)
		close(fds[i]);
	return ERR_INVALID;
}

enum err packet_send(int fd, const uint8_t *packet, size_t len, int passed)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} ancillary = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)packet, .iov_len = len };
	struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (passed >= 0) {
		struct cmsghdr *c;

		header.msg_control = &ancillary;
		header.msg_controllen = sizeof(ancillary);
		c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &passed, sizeof(passed));
	}
	do {
		n = sendmsg(fd, &header, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return ERR_OK;
	/* ETOOMANYREFS: descriptors in flight that the peer has not taken yet (RLIMIT_NOFILE of them). */
	if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)
		return ERR_AGAIN;
	return errno == EMSGSIZE ? ERR_LIMIT : ERR_CLOSED;
}

static void packet_destroy(struct packet *p)
{
	if (p->fd >= 0)
		close(p->fd);
	alloc_free(p);
}

static void on_break(void *arg)
{
	struct channel *c = arg;

	c->on_closed(c->arg, c, c->broken);
}

static void stop_waiting(struct channel *c)
{
	loop_watch_stop(&c->readable);
	loop_timer_cancel(&c->retry);
	loop_return_write(c->writable);
	c->writable = NULL;
}

/* Stop everything and tell the owner from the loop, once. */
static void channel_break(struct channel *c, enum err why)
{
	if (c->broken != ERR_OK || c->closed)
		return;
	c->broken = why;
	stop_waiting(c);
	loop_defer(c->loop, &c->later, on_break, c);
}

static void on_readable(void *arg, int fd, unsigned what)
{
	struct channel *c = arg;
	uint8_t packet[CTL_MSG_MAX];

	for (unsigned i = 0; i < MESSAGES_PER_TURN && c->broken == ERR_OK && !c->closed; i++) {
		struct ctl_msg msg;
		int passed;
		enum err e = packet_receive(fd, packet, c->from, &msg, &passed);

		if (e == ERR_AGAIN)
			return;
		if (e != ERR_OK) {
			channel_break(c, e);
			return;
		}
		c->on_message(c->arg, c, &msg, passed);
	}
}

static void on_writable(void *arg, int fd, unsigned what)
{
	struct channel *c = arg;
	struct list_node *node;
	bool moved = false;

	while ((node = list_first(&c->out)) != NULL) {
		struct packet *p = CONTAINER_OF(node, struct packet, node);
		enum err e = packet_send(fd, p->bytes, p->len, p->fd);

		if (e == ERR_AGAIN && moved)
			return;
		if (e == ERR_AGAIN)
			break;
		if (e != ERR_OK) {
			channel_break(c, e);
			return;
		}
		moved = true;
		list_remove(&c->out, node);
		c->queued -= p->len;
		packet_destroy(p);
	}
	loop_return_write(c->writable);
	c->writable = NULL;
	/* There is room, and yet it will not go (too many descriptors in flight): watching for room would spin. */
	if (node == NULL && c->on_drained != NULL)
		c->on_drained(c->arg, c);
	else if (node != NULL && loop_timer_start(&c->retry, RETRY_MS) != ERR_OK)
		channel_break(c, ERR_SYSTEM);
}

static void on_retry(void *arg)
{
	struct channel *c = arg;

	c->writable = loop_lend_write(c->loop, c->fd, on_writable, c);
	if (c->writable == NULL)
		channel_break(c, ERR_SYSTEM);
}

static void read_peer(int fd, struct channel_peer *out_peer)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	/* Without credentials the peer is nobody, whom no check lets in. */
	*out_peer = (struct channel_peer){ .pid = 0, .uid = (uid_t)-1, .gid = (gid_t)-1 };
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && len == sizeof(cred))
		*out_peer = (struct channel_peer){ cred.pid, cred.uid, cred.gid };
}

enum err channel_open(struct loop *loop, int fd, unsigned from, size_t queue_max,
		      channel_message_fn *on_message, channel_closed_fn *on_closed, void *arg,
		      struct channel **out_channel)
{
	struct channel *c = alloc_zeroed(sizeof(*c));
	enum err e = ERR_NO_MEMORY;
	int flags;

	if (c == NULL)
		goto out;
	*c = (struct channel){ .loop = loop,
			       .fd = fd,
			       .from = from,
			       .on_message = on_message,
			       .on_closed = on_closed,
			       .arg = arg,
			       .queue_max = queue_max };
	list_init(&c->out);
	read_peer(fd, &c->peer);
	e = ERR_SYSTEM;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		goto out;
	loop_timer_init(&c->retry, loop, on_retry, c);
	loop_watch_init(&c->readable, loop, fd, LOOP_READ, on_readable, c);
	e = loop_watch_start(&c->readable);
	if (e != ERR_OK)
		goto out;
	*out_channel = c;
	return ERR_OK;
out:
	alloc_free(c);
	close(fd);
	return e;
}

static void on_free(void *arg)
{
	alloc_free(arg);
}

void channel_close(struct channel *c)
{
	struct list_node *node;

	if (c == NULL || c->closed)
		return;
	c->closed = true;
	stop_waiting(c);
	while ((node = list_pop_front(&c->out)) != NULL)
		packet_destroy(CONTAINER_OF(node, struct packet, node));
	close(c->fd);
	c->fd = -1;
	/* Not yet: the owner may close it from on_message, below which on_readable still looks at it. */
	loop_deferred_cancel(c->loop, &c->later);
	loop_defer(c->loop, &c->later, on_free, c);
}

void channel_restrict(struct channel *c, unsigned from)
{
	c->from &= from;
}

const struct channel_peer *channel_peer(const struct channel *c)
{
	return &c->peer;
}

void channel_tell_drained(struct channel *c, channel_drained_fn *on_drained)
{
	c->on_drained = on_drained;
}

size_t channel_queued(const struct channel *c)
{
	return c->queued;
}

static enum err enqueue(struct channel *c, const uint8_t *bytes, size_t len, int passed)
{
	struct packet *p = alloc_zeroed(sizeof(*p) + len);

	if (p == NULL)
		return ERR_NO_MEMORY;
	p->fd = -1;
	if (passed >= 0) {
		p->fd = fcntl(passed, F_DUPFD_CLOEXEC, 0);
		if (p->fd < 0)
			goto failed;
	}
	if (c->writable == NULL && !c->retry.started) {
		c->writable = loop_lend_write(c->loop, c->fd, on_writable, c);
		if (c->writable == NULL)
			goto failed;
	}
	p->len = len;
	memcpy(p->bytes, bytes, len);
	list_push_back(&c->out, &p->node);
	c->queued += len;
	return ERR_OK;
failed:
	packet_destroy(p);
	return ERR_SYSTEM;
}

enum err channel_send(struct channel *c, const struct ctl_msg *msg, int fd)
{
	uint8_t packet[CTL_MSG_MAX];
	const struct ctl_row *row = ctl_row(msg->type);
	size_t len, limit;

	if (c->broken != ERR_OK || c->closed)
		return ERR_CLOSED;
	len = ctl_msg_write(msg, packet, sizeof(packet));
	if (len == 0 || row->takes_fd != (fd >= 0))
		return ERR_INVALID;
	if (list_first(&c->out) == NULL) {
		enum err e = packet_send(c->fd, packet, len, fd);

		if (e == ERR_OK)
			return ERR_OK;
		if (e != ERR_AGAIN) {
			channel_break(c, e);
			return e;
		}
	}
	limit = c->queue_max + (len <= SMALL ? RESERVE : 0);
	if (len > limit || c->queued > limit - len)
		return ERR_LIMIT;
	return enqueue(c, packet, len, fd);
}
