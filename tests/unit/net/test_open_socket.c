/* Listening sockets: who else may have the port. Real sockets on loopback. */
#include "net/open_socket.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static struct endpoint bound_to(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct endpoint at;

	cr_assert_eq(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	cr_assert(addr_from_sockaddr((struct sockaddr *)&sa, &at));
	return at;
}

static int open_at(const struct endpoint *at, bool is_shared)
{
	int fd = -1;

	cr_assert_eq(open_socket_tcp(at, 8, is_shared, &fd), ERR_OK);
	return fd;
}

Test(open_socket, gives_a_port_to_one_unless_it_is_shared)
{
	struct endpoint any = { .port = 0 };
	int alone, first, second, fd = -1;
	struct endpoint at;

	cr_assert(addr_parse(text_of("127.0.0.1"), &any.addr));
	alone = open_at(&any, false);
	at = bound_to(alone);
	cr_expect_eq(open_socket_tcp(&at, 8, false, &fd), ERR_EXISTS);
	cr_expect_eq(open_socket_tcp(&at, 8, true, &fd), ERR_EXISTS, "who came first did not share");
	cr_expect_eq(fd, -1);
	close(alone);
	first = open_at(&any, true);
	at = bound_to(first);
	second = open_at(&at, true);
	cr_expect_eq(open_socket_tcp(&at, 8, false, &fd), ERR_EXISTS);
	close(first);
	close(second);
}
