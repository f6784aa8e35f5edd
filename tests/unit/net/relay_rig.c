/* The rig of the relay's tests; fails the running test when the machine does not play along. */
#include "relay_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"
#include "net/sockopt.h"

struct metrics relay_rig_metrics;

void relay_rig_on_end(void *arg, enum relay_end why)
{
	struct relay_rig *rig = arg;

	rig->ends++;
	rig->why = why;
}

void relay_rig_build(struct relay_rig *rig, unsigned pipes)
{
	int pair[2];

	*rig = (struct relay_rig){ .fds_before = fixture_fd_count() };
	rig->loop = loop_create();
	cr_assert_not_null(rig->loop);
	cr_assert_eq(pump_worker_init(&rig->worker, pipes), ERR_OK);
	fixture_tcp_pair(pair);
	rig->guest = pair[0];
	rig->guest_fd = pair[1];
	fixture_tcp_pair(pair);
	rig->origin_fd = pair[0];
	rig->origin = pair[1];
}

void relay_rig_start(struct relay_rig *rig, const struct relay_options *options, const char *first)
{
	cr_assert_eq(relay_start(rig->loop, &rig->worker, &relay_rig_metrics, rig->guest_fd, rig->origin_fd, options,
				 (const uint8_t *)first, strlen(first), relay_rig_on_end, rig, &rig->relay),
		     ERR_OK);
}

void relay_rig_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void relay_rig_close_relay(struct relay_rig *rig)
{
	relay_destroy(rig->relay);
	rig->relay = NULL;
	relay_rig_close(&rig->guest_fd);
	relay_rig_close(&rig->origin_fd);
}

void relay_rig_tear_down(struct relay_rig *rig)
{
	relay_rig_close_relay(rig);
	relay_rig_close(&rig->guest);
	relay_rig_close(&rig->origin);
	cr_expect_eq(rig->worker.pipes_lent, 0);
	pump_worker_finish(&rig->worker);
	loop_destroy(rig->loop);
	cr_expect_eq(fixture_fd_count(), rig->fds_before);
}

void relay_rig_turn(struct relay_rig *rig)
{
	for (unsigned n = 0; n < 20; n++)
		loop_turn(rig->loop, n % 10 == 0 ? 4 : 0);
}

const char *relay_rig_heard(struct relay_rig *rig, int fd)
{
	static char text[4096];
	size_t len = 0;
	ssize_t n;

	relay_rig_turn(rig);
	for (;;) {
		n = recv(fd, text + len, sizeof(text) - len - 2, MSG_DONTWAIT);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	if (n == 0)
		text[len++] = '.';
	else if (errno != EAGAIN)
		text[len++] = '!';
	else if (len == 0)
		text[len++] = '-';
	text[len] = '\0';
	return text;
}

void relay_rig_say(int fd, const char *text)
{
	fixture_send(fd, text, strlen(text));
}

void relay_rig_finish(int fd)
{
	cr_assert_eq(shutdown(fd, SHUT_WR), 0);
}

void relay_rig_reset(int *fd)
{
	cr_assert_eq(sockopt_reset_on_close(*fd), ERR_OK);
	relay_rig_close(fd);
}

void relay_rig_on_flushed(void *arg)
{
	struct relay_rig *rig = arg;

	rig->flushes++;
	if (rig->destroy_when_flushed)
		relay_rig_close_relay(rig);
}

/* A stream that can be checked at any place. */
static uint8_t byte_at(uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ULL;

	return (uint8_t)(x >> 56 ^ x >> 24);
}

void relay_rig_pour(int fd, uint64_t *at, uint64_t len)
{
	static uint8_t bytes[65536];
	uint64_t left = len - *at;
	size_t n = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
	ssize_t sent;

	for (size_t i = 0; i < n; i++)
		bytes[i] = byte_at(*at + i);
	sent = n == 0 ? 0 : send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	*at += sent > 0 ? (uint64_t)sent : 0;
}

void relay_rig_drink(int fd, uint64_t *at, size_t max)
{
	static uint8_t bytes[65536];
	ssize_t n = recv(fd, bytes, max < sizeof(bytes) ? max : sizeof(bytes), MSG_DONTWAIT);

	for (ssize_t i = 0; i < n; i++)
		cr_assert_eq(bytes[i], byte_at(*at + (uint64_t)i), "byte %zu", (size_t)*at + (size_t)i);
	*at += n > 0 ? (uint64_t)n : 0;
}
