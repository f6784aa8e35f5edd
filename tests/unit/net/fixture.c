/* Sockets and turns for the tests of src/net; fails the running test when the machine does not play along. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define PATIENCE_MS 10000

size_t fixture_fd_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t count = 0;

	cr_assert_not_null(dir);
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count - 3; /* ".", ".." and the directory itself */
}

int fixture_listen(enum addr_family family, int backlog, struct endpoint *out_at)
{
	static const uint8_t v4[4] = { 127, 0, 0, 1 };
	static const uint8_t v6[16] = { [15] = 1 };
	struct endpoint at = { .addr = family == ADDR_V4 ? addr_v4(v4) : addr_v6(v6) };
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&at, &sa);
	int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	cr_assert(fd >= 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&sa, len), 0);
	cr_assert_eq(listen(fd, backlog), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	cr_assert(addr_from_sockaddr((struct sockaddr *)&sa, out_at));
	return fd;
}

void fixture_tcp_pair(int out_fds[2])
{
	struct endpoint at;
	struct sockaddr_storage sa;
	int listening = fixture_listen(ADDR_V4, 1, &at);
	socklen_t len = endpoint_to_sockaddr(&at, &sa);

	out_fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert(out_fds[0] >= 0);
	cr_assert_eq(connect(out_fds[0], (struct sockaddr *)&sa, len), 0);
	cr_assert_eq(fcntl(out_fds[0], F_SETFL, O_NONBLOCK), 0);
	out_fds[1] = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	cr_assert(out_fds[1] >= 0);
	close(listening);
}

void fixture_unix_pair(int out_fds[2])
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, out_fds),
		     0);
}

bool fixture_turn_until(struct loop *l, const bool *done)
{
	uint64_t from_ms = clock_mono_ms();

	while (!*done && clock_mono_ms() - from_ms < PATIENCE_MS)
		loop_turn(l, 20);
	return *done;
}

void fixture_send(int fd, const void *bytes, size_t len)
{
	cr_assert_eq(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

struct request {
	struct nlmsghdr header;
	union {
		struct ifinfomsg link;
		struct ifaddrmsg addr;
		struct rtmsg route;
		unsigned char room[128];
	} body;
};

static void add_addr(struct request *r, unsigned short type, const struct addr *a)
{
	struct rtattr *rta = (struct rtattr *)(void *)((char *)r + NLMSG_ALIGN(r->header.nlmsg_len));

	rta->rta_type = type;
	rta->rta_len = (unsigned short)RTA_LENGTH(addr_len(a));
	memcpy(RTA_DATA(rta), a->octets, addr_len(a));
	r->header.nlmsg_len = NLMSG_ALIGN(r->header.nlmsg_len) + RTA_ALIGN(rta->rta_len);
}

static void tell_kernel(struct request *r, unsigned short type, unsigned short flags)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct {
		struct nlmsghdr header;
		struct nlmsgerr body;
		unsigned char room[256];
	} answer = { 0 };

	r->header.nlmsg_type = type;
	r->header.nlmsg_flags = (unsigned short)(NLM_F_REQUEST | NLM_F_ACK | flags);
	cr_assert(fd >= 0);
	cr_assert_eq(send(fd, r, r->header.nlmsg_len, 0), (ssize_t)r->header.nlmsg_len);
	cr_assert(recv(fd, &answer, sizeof(answer), 0) > 0);
	cr_assert_eq(answer.header.nlmsg_type, NLMSG_ERROR);
	cr_assert_eq(answer.body.error, 0, "netlink request %u: errno %d", type, -answer.body.error);
	close(fd);
}

#define LOOPBACK_INDEX 1

void fixture_own_network(void)
{
	struct request r = { .header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)) },
			     .body.link = { .ifi_family = AF_UNSPEC,
					    .ifi_index = LOOPBACK_INDEX,
					    .ifi_flags = IFF_UP,
					    .ifi_change = IFF_UP } };

	if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		cr_skip_test("no network namespace: %s", strerror(errno));
	tell_kernel(&r, RTM_NEWLINK, 0);
}

void fixture_set_address(const struct addr *a, bool there)
{
	bool is_v4 = a->family == ADDR_V4;
	struct request r = { .header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)) },
			     .body.addr = { .ifa_family = is_v4 ? AF_INET : AF_INET6,
					    .ifa_prefixlen = is_v4 ? 32 : 128,
					    .ifa_flags = IFA_F_NODAD,
					    .ifa_index = LOOPBACK_INDEX } };

	add_addr(&r, IFA_LOCAL, a);
	add_addr(&r, IFA_ADDRESS, a);
	tell_kernel(&r, there ? RTM_NEWADDR : RTM_DELADDR, there ? NLM_F_CREATE | NLM_F_EXCL : 0);
}

void fixture_add_route(const struct addr *to, unsigned char kind)
{
	bool is_v4 = to->family == ADDR_V4;
	struct request r = { .header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)) },
			     .body.route = { .rtm_family = is_v4 ? AF_INET : AF_INET6,
					     .rtm_dst_len = is_v4 ? 32 : 128,
					     .rtm_table = RT_TABLE_MAIN,
					     .rtm_protocol = RTPROT_STATIC,
					     .rtm_scope = RT_SCOPE_UNIVERSE,
					     .rtm_type = kind } };

	add_addr(&r, RTA_DST, to);
	tell_kernel(&r, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL);
}
