/* Accepting, and what happens when the process may open nothing more. */
#include "net/listener.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "fixture.h"

enum { GUESTS_MAX = 64 };

struct house {
	struct loop *loop;
	struct listener *listener;
	struct endpoint at;
	int guests[GUESTS_MAX];
	struct endpoint sources[GUESTS_MAX];
	size_t count;
	bool destroy_at_once;
	bool done;
};

static struct metrics metrics;

static void on_accept(void *arg, struct listener *l, int fd, const struct endpoint *source)
{
	struct house *h = arg;

	cr_assert_lt(h->count, GUESTS_MAX);
	h->sources[h->count] = *source;
	h->guests[h->count++] = fd;
	h->done = true;
	if (h->destroy_at_once)
		listener_destroy(l);
}

static uint64_t counted(enum metric id)
{
	return atomic_load(&metrics.value[id]);
}

static void open_house(struct house *h, const struct listener_options *options)
{
	int fd = fixture_listen(ADDR_V4, GUESTS_MAX, &h->at);

	h->loop = loop_create();
	cr_assert_eq(fcntl(fd, F_SETFL, 0), 0, "a blocking one, as others hand it over");
	cr_assert_eq(listener_create(h->loop, &metrics, fd, options, on_accept, h, &h->listener), ERR_OK);
}

static void close_house(struct house *h)
{
	for (size_t i = 0; i < h->count; i++)
		close(h->guests[i]);
	if (!h->destroy_at_once)
		listener_destroy(h->listener);
	loop_destroy(h->loop);
}

static int knock(const struct house *h)
{
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&h->at, &sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(fd >= 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&sa, len), 0);
	return fd;
}

Test(listener, hands_over_guests_with_their_source_a_bounded_number_a_wakeup)
{
	size_t fds = fixture_fd_count();
	struct house h = { 0 };
	struct listener_options options = { .name = "main", .accepts_per_wakeup = 2 };
	int clients[5], no_delay = 0;
	socklen_t len = sizeof(no_delay);

	open_house(&h, &options);
	cr_expect_str_eq(listener_name(h.listener), "main");
	cr_expect(!listener_is_unix(h.listener));
	loop_turn(h.loop, 0);
	for (size_t i = 0; i < 5; i++)
		clients[i] = knock(&h);
	loop_turn(h.loop, 1000);
	cr_expect_eq(h.count, 2);
	loop_turn(h.loop, 0);
	loop_turn(h.loop, 0);
	cr_expect_eq(h.count, 5);
	for (size_t i = 0; i < h.count; i++) {
		struct sockaddr_storage sa;
		struct endpoint client;
		socklen_t sa_len = sizeof(sa);

		cr_assert_eq(getsockname(clients[i], (struct sockaddr *)&sa, &sa_len), 0);
		cr_assert(addr_from_sockaddr((struct sockaddr *)&sa, &client));
		cr_expect(endpoint_equal(&client, &h.sources[i]));
		cr_expect((fcntl(h.guests[i], F_GETFL) & O_NONBLOCK) != 0);
		cr_expect((fcntl(h.guests[i], F_GETFD) & FD_CLOEXEC) != 0);
		cr_assert_eq(getsockopt(h.guests[i], IPPROTO_TCP, TCP_NODELAY, &no_delay, &len), 0);
		cr_expect_neq(no_delay, 0);
		close(clients[i]);
	}
	close_house(&h);
	cr_expect_eq(fixture_fd_count(), fds);
}

Test(listener, serves_unix_sockets_without_a_source)
{
	struct house h = { .loop = loop_create() };
	struct listener_options options = { .name = "vm" };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len;

	snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "egressd-test-%d", (int)getpid());
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(sa.sun_path + 1));
	cr_assert_eq(bind(fd, (struct sockaddr *)&sa, len), 0);
	cr_assert_eq(listen(fd, 4), 0);
	cr_assert_eq(listener_create(h.loop, &metrics, fd, &options, on_accept, &h, &h.listener), ERR_OK);
	cr_expect(listener_is_unix(h.listener));
	cr_assert_eq(connect(client, (struct sockaddr *)&sa, len), 0);
	cr_expect(fixture_turn_until(h.loop, &h.done));
	cr_expect_eq(h.count, 1);
	cr_expect_eq(h.sources[0].addr.family, ADDR_NONE);
	close(client);
	close_house(&h);
}

/* Let this process open `more` further descriptors. */
static void allow_descriptors(size_t more, struct rlimit *out_old)
{
	struct rlimit limit;
	int lowest = dup(0);

	/* Descriptors are given lowest first, and none below this one is free. */
	cr_assert(lowest >= 0);
	close(lowest);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, out_old), 0);
	limit = (struct rlimit){ .rlim_cur = (rlim_t)lowest + more, .rlim_max = out_old->rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

Test(listener, pauses_without_spinning_when_descriptors_run_out_and_serves_again)
{
	size_t fds = fixture_fd_count();
	struct house h = { 0 };
	struct listener_options options = { .name = "full", .pause_ms = 3600000 };
	int clients[10];
	struct rlimit old;
	uint64_t calls;
	char byte;

	open_house(&h, &options);
	for (size_t i = 0; i < 10; i++)
		clients[i] = knock(&h);
	allow_descriptors(4, &old);
	for (size_t n = 0; n < 50; n++)
		loop_turn(h.loop, 0);
	cr_expect_eq(h.count, 4);
	cr_expect(listener_is_paused(h.listener));
	calls = counted(METRIC_ACCEPT_CALLS);
	cr_expect_leq(calls, 6, "one that failed and one to turn a client away");
	cr_expect_eq(counted(METRIC_ACCEPT_PAUSED), 1);
	cr_expect_eq(counted(METRIC_REJECTED), 1);
	cr_expect_eq(read(clients[4], &byte, 1), 0, "the fifth is told at once");
	cr_expect_eq(recv(clients[5], &byte, 1, MSG_DONTWAIT), -1, "the sixth waits");

	/* One freed descriptor is one guest more, not one spare more. */
	close(h.guests[0]);
	h.guests[0] = h.guests[--h.count];
	listener_wake(h.listener);
	cr_expect(!listener_is_paused(h.listener));
	for (size_t n = 0; n < 50; n++)
		loop_turn(h.loop, 0);
	cr_expect_eq(h.count, 4);
	cr_expect(listener_is_paused(h.listener));
	cr_expect_eq(counted(METRIC_ACCEPT_PAUSED), 2);

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	listener_wake(h.listener);
	for (size_t n = 0; n < 50; n++)
		loop_turn(h.loop, 0);
	cr_expect_eq(h.count, 7, "all that are left");
	cr_expect(!listener_is_paused(h.listener));
	for (size_t i = 0; i < 10; i++)
		close(clients[i]);
	close_house(&h);
	cr_expect_eq(fixture_fd_count(), fds);
}

Test(listener, ends_a_pause_by_itself)
{
	struct house h = { 0 };
	struct listener_options options = { .name = "short", .pause_ms = 5 };
	struct rlimit old;
	int clients[3];

	open_house(&h, &options);
	for (size_t i = 0; i < 3; i++)
		clients[i] = knock(&h);
	allow_descriptors(0, &old);
	loop_turn(h.loop, 1000);
	cr_expect(listener_is_paused(h.listener));
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	cr_expect(fixture_turn_until(h.loop, &h.done));
	cr_expect_eq(h.count, 2);
	for (size_t i = 0; i < 3; i++)
		close(clients[i]);
	close_house(&h);
}

Test(listener, may_be_destroyed_from_its_own_callback)
{
	size_t fds = fixture_fd_count();

	for (size_t round = 0; round < 2; round++) {
		struct house h = { .destroy_at_once = true };
		struct listener_options options = { .name = "short-lived" };
		int clients[2];

		open_house(&h, &options);
		clients[0] = knock(&h);
		clients[1] = knock(&h);
		if (round == 1)
			listener_take_waiting(h.listener);
		for (size_t n = 0; n < 5; n++)
			loop_turn(h.loop, 0);
		cr_expect_eq(h.count, 1);
		close(clients[0]);
		close(clients[1]);
		close_house(&h);
	}
	listener_destroy(NULL);
	cr_expect_eq(fixture_fd_count(), fds);
}

Test(listener, takes_all_that_waits_before_it_is_closed)
{
	size_t fds = fixture_fd_count();
	struct house h = { 0 };
	struct listener_options options = { .name = "leaving", .accepts_per_wakeup = 2 };
	int clients[5];

	open_house(&h, &options);
	for (size_t i = 0; i < 5; i++)
		clients[i] = knock(&h);
	listener_take_waiting(h.listener);
	cr_expect_eq(h.count, 5);
	listener_take_waiting(h.listener);
	cr_expect_eq(h.count, 5, "nobody waits any more");
	for (size_t i = 0; i < 5; i++)
		close(clients[i]);
	close_house(&h);
	cr_expect_eq(fixture_fd_count(), fds);
}

Test(listener, refuses_descriptors_that_do_not_listen)
{
	struct house h = { .loop = loop_create() };
	struct listener_options options = { .name = "wrong" };
	int pipe_fds[2];
	int unbound = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(pipe(pipe_fds), 0);
	cr_expect_eq(listener_create(h.loop, &metrics, pipe_fds[0], &options, on_accept, &h, &h.listener),
		     ERR_SYSTEM);
	cr_expect_eq(listener_create(h.loop, &metrics, unbound, &options, on_accept, &h, &h.listener),
		     ERR_INVALID);
	cr_expect_eq(listener_create(h.loop, &metrics, datagrams, &options, on_accept, &h, &h.listener),
		     ERR_INVALID);
	cr_expect_null(h.listener);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	close(unbound);
	close(datagrams);
	loop_destroy(h.loop);
}
