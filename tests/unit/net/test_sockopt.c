/* Options arrive in the kernel, and what it refuses is said. */
#include "net/sockopt.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/attr.h"
#include "fixture.h"

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	cr_assert_eq(getsockopt(fd, level, name, &value, &len), 0);
	return value;
}

Test(sockopt, opens_sockets_that_neither_block_nor_leak_into_children)
{
	enum addr_family families[] = { ADDR_V4, ADDR_V6 };

	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		int fd = -1;

		cr_assert_eq(sockopt_open_tcp(families[i], &fd), ERR_OK);
		cr_expect((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
		cr_expect((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
		cr_expect_eq(sockopt_no_delay(fd), ERR_OK);
		cr_expect_neq(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
		cr_expect_eq(sockopt_keepalive(fd, 60, 10, 6), ERR_OK);
		cr_expect_eq(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
		cr_expect_eq(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 60);
		cr_expect_eq(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 10);
		cr_expect_eq(option(fd, IPPROTO_TCP, TCP_KEEPCNT), 6);
		cr_expect_eq(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 120000);
		cr_expect_eq(sockopt_keepalive(fd, 0, 10, 6), ERR_INVALID);
		cr_expect_eq(sockopt_keepalive(fd, 4000000, 10, 6), ERR_INVALID);
		cr_expect_eq(sockopt_take_error(fd), 0);
		close(fd);
		cr_expect_eq(sockopt_no_delay(fd), ERR_SYSTEM);
		cr_expect_eq(sockopt_keepalive(fd, 60, 10, 6), ERR_SYSTEM);
		cr_expect_eq(sockopt_reset_on_close(fd), ERR_SYSTEM);
		cr_expect_eq(sockopt_mark(fd, 1), ERR_SYSTEM);
		cr_expect_eq(sockopt_take_error(fd), EBADF);
	}
}

Test(sockopt, binds_to_a_source_of_the_sockets_family_without_taking_a_port)
{
	static const uint8_t v4[4] = { 127, 0, 0, 9 };
	static const uint8_t foreign[4] = { 192, 0, 2, 1 };
	static const uint8_t v6[16] = { [15] = 1 };
	struct addr source4 = addr_v4(v4), source6 = addr_v6(v6), other = addr_v4(foreign);
	struct addr none = { .family = ADDR_NONE };
	struct endpoint local;
	int fd;

	cr_assert_eq(sockopt_open_tcp(ADDR_V4, &fd), ERR_OK);
	cr_expect_eq(sockopt_source(fd, &none), ERR_INVALID);
	cr_expect_eq(sockopt_source(fd, &source6), ERR_SYSTEM);
	cr_expect_eq(sockopt_source(fd, &other), ERR_SYSTEM);
	cr_expect_eq(sockopt_source(fd, &source4), ERR_OK);
	cr_assert_eq(sockopt_local(fd, &local), ERR_OK);
	cr_expect(addr_equal(&local.addr, &source4));
	cr_expect_eq(local.port, 0);
	close(fd);
	cr_assert_eq(sockopt_open_tcp(ADDR_V6, &fd), ERR_OK);
	cr_expect_eq(sockopt_source(fd, &source6), ERR_OK);
	cr_assert_eq(sockopt_local(fd, &local), ERR_OK);
	cr_expect(addr_equal(&local.addr, &source6));
	cr_expect_eq(local.port, 0);
	close(fd);
}

Test(sockopt, knows_both_ends_and_resets_on_request)
{
	struct endpoint peer, local;
	int pair[2], unix_pair[2];
	char byte;

	fixture_tcp_pair(pair);
	cr_assert_eq(sockopt_peer(pair[0], &peer), ERR_OK);
	cr_assert_eq(sockopt_local(pair[1], &local), ERR_OK);
	cr_expect(endpoint_equal(&peer, &local));
	cr_expect_eq(sockopt_reset_on_close(pair[0]), ERR_OK);
	close(pair[0]);
	cr_expect_eq(read(pair[1], &byte, 1), -1);
	cr_expect_eq(errno, ECONNRESET);
	cr_expect_eq(sockopt_peer(pair[1], &peer), ERR_SYSTEM);
	close(pair[1]);

	fixture_unix_pair(unix_pair);
	cr_expect_eq(sockopt_peer(unix_pair[0], &peer), ERR_INVALID);
	close(unix_pair[0]);
	close(unix_pair[1]);
}

Test(sockopt, tells_what_the_other_end_has_not_acknowledged)
{
	static char block[65536];
	int pair[2], unix_pair[2];
	ssize_t sent = 0, got = 0, n;

	fixture_tcp_pair(pair);
	cr_expect(sockopt_is_delivered(pair[0]));
	while ((n = send(pair[0], block, sizeof(block), MSG_NOSIGNAL)) > 0)
		sent += n;
	cr_expect_not(sockopt_is_delivered(pair[0]), "%zd bytes that nobody reads", sent);
	for (int i = 0; i < 20000 && got < sent; i++) {
		n = recv(pair[1], block, sizeof(block), 0);
		got += n > 0 ? n : 0;
		if (n <= 0)
			usleep(500);
	}
	for (int i = 0; i < 20000 && !sockopt_is_delivered(pair[0]); i++)
		usleep(500);
	cr_expect_eq(got, sent);
	cr_expect(sockopt_is_delivered(pair[0]));
	close(pair[0]);
	close(pair[1]);

	fixture_unix_pair(unix_pair);
	cr_expect_eq(send(unix_pair[0], "x", 1, 0), 1);
	cr_expect(sockopt_is_delivered(unix_pair[0]));
	close(unix_pair[0]);
	close(unix_pair[1]);
}
