/* Sockets and turns for the tests of src/net; fails the running test when the machine does not play along. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
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
