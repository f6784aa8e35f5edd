/* Pipes and the scratch buffer: lent, given back empty, and both ways move the same bytes. */
#include "net/pump.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/attr.h"
#include "fixture.h"
#include "net/pump_internal.h"

static const struct pump_ops *const both[] = { &pump_copy, &pump_splice };

Test(pump, makes_as_many_pipes_as_the_system_gives_and_no_more_than_asked)
{
	size_t fds = fixture_fd_count();
	struct pump_worker w;
	struct rlimit old, limit;

	cr_assert_eq(pump_worker_init(&w, 0), ERR_OK);
	cr_expect_eq(w.pipe_count, 0);
	cr_expect_null(pump_lend_pipe(&w));
	pump_worker_finish(&w);

	cr_assert_eq(pump_worker_init(&w, 3), ERR_OK);
	cr_expect_eq(w.pipe_count, 3);
	cr_expect_geq(w.pipe_len, 65536);
	cr_expect_eq(fixture_fd_count(), fds + 6);
	pump_worker_finish(&w);
	cr_expect_eq(fixture_fd_count(), fds);

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	limit = (struct rlimit){ .rlim_cur = fds + 4, .rlim_max = old.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_expect_eq(pump_worker_init(&w, 100), ERR_OK, "fewer are not an error");
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	cr_expect_leq(w.pipe_count, 2);
	pump_worker_finish(&w);
	cr_expect_eq(fixture_fd_count(), fds);

	alloc_fail_at(1);
	cr_expect_eq(pump_worker_init(&w, 1), ERR_NO_MEMORY);
	alloc_fail_at(0);
}

Test(pump, gives_no_pipe_to_another_while_bytes_are_in_it)
{
	struct pump_worker w;
	struct pump_pipe *p;
	char byte;

	cr_assert_eq(pump_worker_init(&w, 1), ERR_OK);
	p = pump_lend_pipe(&w);
	cr_assert_not_null(p);
	cr_expect_null(pump_lend_pipe(&w));
	cr_expect_eq(w.pipes_lent, 1);
	p->len = 6;
	cr_assert_eq(write(p->write_fd, "secret", 6), 6);
	pump_return_pipe(&w, p);
	cr_expect_eq(w.pipes_lent, 0);
	p = pump_lend_pipe(&w);
	cr_assert_not_null(p);
	cr_expect_eq(p->len, 0);
	cr_expect_eq(read(p->read_fd, &byte, 1), -1);
	cr_expect_eq(errno, EAGAIN);

	/* A pipe whose count is wrong cannot be trusted: it goes. */
	p->len = 1;
	pump_return_pipe(&w, p);
	cr_expect_eq(w.pipe_count, 0);
	cr_expect_null(pump_lend_pipe(&w));
	pump_worker_finish(&w);

	cr_assert_eq(pump_worker_init(&w, 1), ERR_OK);
	p = pump_lend_pipe(&w);
	p->len = 1;
	cr_assert_eq(write(p->write_fd, "more", 4), 4);
	pump_return_pipe(&w, p);
	cr_expect_eq(w.pipe_count, 0);
	pump_worker_finish(&w);
}

enum { STREAM_LEN = 1 << 20 };

static uint8_t stream[STREAM_LEN], got[STREAM_LEN];

/* Write the stream to ends[0], move it from ends[1] to ends[2], sip it at ends[3]. How often a move was blocked. */
static size_t carry(const struct pump_ops *ops, struct pump_worker *w, const int ends[4])
{
	struct pump_flow f = { 0 };
	size_t written = 0, got_len = 0, accepted = 0, blocked = 0;

	for (size_t turn = 0; got_len < STREAM_LEN && turn < 100000; turn++) {
		struct pump_moved moved = { 0 };
		enum pump_status s;
		ssize_t n = send(ends[0], stream + written, STREAM_LEN - written, MSG_DONTWAIT);

		written += n > 0 ? (size_t)n : 0;
		if (pump_flow_is_empty(&f))
			s = ops->move(w, &f, ends[1], ends[2], 20000, &moved);
		else
			s = pump_flush(w, &f, ends[2], &moved.sent);
		cr_assert(s == PUMP_OK || s == PUMP_BLOCKED || s == PUMP_WAIT, "status %d", s);
		cr_assert_leq(moved.read, 20000);
		cr_assert_eq(pump_flow_is_empty(&f), s != PUMP_BLOCKED);
		accepted += moved.sent;
		blocked += s == PUMP_BLOCKED;
		n = recv(ends[3], got + got_len, 2000, MSG_DONTWAIT);
		got_len += n > 0 ? (size_t)n : 0;
	}
	cr_expect_eq(accepted, STREAM_LEN);
	cr_assert(pump_flow_is_empty(&f));
	return blocked;
}

Test(pump, moves_keeps_and_flushes_the_same_either_way)
{
	for (size_t i = 0; i < STREAM_LEN; i++)
		stream[i] = (uint8_t)(i * 31 >> 3);
	for (size_t way = 0; way < ARRAY_LEN(both); way++) {
		struct pump_worker w;
		struct pump_flow f = { 0 };
		struct pump_moved moved;
		int ends[4];

		cr_assert_eq(pump_worker_init(&w, 1), ERR_OK);
		fixture_tcp_pair(ends);
		fixture_unix_pair(ends + 2);
		cr_expect_eq(both[way]->move(&w, &f, ends[1], ends[2], 65536, &moved), PUMP_WAIT);
		memset(got, 0, sizeof(got));
		cr_expect_gt(carry(both[way], &w, ends), 0, "way %zu", way);
		cr_expect(memcmp(got, stream, STREAM_LEN) == 0);
		cr_expect_eq(w.pipes_lent, 0);
		close(ends[0]);
		cr_expect_eq(both[way]->move(&w, &f, ends[1], ends[2], 65536, &moved), PUMP_END);
		cr_expect_eq(w.pipes_lent, 0);
		for (size_t i = 1; i < 4; i++)
			close(ends[i]);
		pump_worker_finish(&w);
	}
}

Test(pump, says_which_side_failed_and_keeps_no_pipe)
{
	static const uint8_t bytes[40000];

	for (size_t way = 0; way < ARRAY_LEN(both); way++) {
		struct pump_worker w;
		struct pump_flow f = { 0 };
		struct pump_moved moved;
		struct linger reset = { .l_onoff = 1 };
		int from[2], to[2];

		cr_assert_eq(pump_worker_init(&w, 1), ERR_OK);
		fixture_tcp_pair(from);
		fixture_tcp_pair(to);
		fixture_send(from[0], bytes, sizeof(bytes));
		cr_assert_eq(setsockopt(to[1], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
		close(to[1]);
		cr_expect_eq(both[way]->move(&w, &f, from[1], to[0], 1000, &moved), PUMP_SINK_FAILED);
		cr_expect(errno == ECONNRESET || errno == EPIPE, "errno %d", errno);
		pump_flow_drop(&w, &f);
		/* What came before a reset is still read. */
		while (recv(from[1], got, sizeof(got), MSG_DONTWAIT) > 0)
			;
		cr_assert_eq(setsockopt(from[0], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
		close(from[0]);
		cr_expect_eq(both[way]->move(&w, &f, from[1], to[0], 1000, &moved), PUMP_SOURCE_FAILED);
		cr_expect_eq(errno, ECONNRESET);
		cr_expect_eq(w.pipes_lent, 0);
		cr_expect_eq(w.pipe_count, 1);
		close(from[1]);
		close(to[0]);
		pump_worker_finish(&w);
	}
}

Test(pump, leaves_to_copying_what_cannot_be_spliced)
{
	struct pump_worker w;
	struct pump_flow f = { 0 };
	struct pump_moved moved;
	int from[2], to[2];

	cr_assert_eq(pump_worker_init(&w, 0), ERR_OK);
	fixture_tcp_pair(from);
	fixture_tcp_pair(to);
	fixture_send(from[0], "x", 1);
	cr_expect_eq(pump_splice.move(&w, &f, from[1], to[0], 1000, &moved), PUMP_UNFIT, "no pipe");
	pump_worker_finish(&w);
	cr_assert_eq(pump_worker_init(&w, 1), ERR_OK);
	close(from[1]);
	from[1] = open("/proc/self/fd", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	cr_assert(from[1] >= 0);
	cr_expect_eq(pump_splice.move(&w, &f, from[1], to[0], 1000, &moved), PUMP_UNFIT, "no socket");
	cr_expect_eq(w.pipes_lent, 0);
	for (size_t i = 0; i < 2; i++) {
		close(from[i]);
		close(to[i]);
	}
	pump_worker_finish(&w);
}

Test(pump, says_so_when_there_is_no_memory_to_keep_a_rest)
{
	static const uint8_t bytes[262144];
	int pair[2];

	fixture_unix_pair(pair);
	for (uint64_t nth = 1; nth <= 2; nth++) {
		struct pump_worker w;
		struct pump_flow f = { 0 };
		size_t sent = 0;

		cr_assert_eq(pump_worker_init(&w, 0), ERR_OK);
		do {
			alloc_fail_at(nth);
		} while (pump_copy_write(&f, pair[0], bytes, sizeof(bytes), &sent) == PUMP_OK);
		alloc_fail_at(0);
		cr_expect_null(f.unsent == NULL ? NULL : f.unsent->bytes, "failure %zu", (size_t)nth);
		pump_flow_drop(&w, &f);
		cr_expect(pump_flow_is_empty(&f));
		pump_worker_finish(&w);
	}
	close(pair[0]);
	close(pair[1]);
}
