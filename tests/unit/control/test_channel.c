/* One end of a control connection against a raw socket: hostile packets, descriptors, a slow reader, closing at any time. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/channel.h"
#include "fixture.h"

struct seen {
	unsigned messages, closes;
	enum ctl_type type;
	uint64_t number;
	char text[64];
	bool had_fd;
	enum err why;
	bool close_in_message;
	int others[2];
	unsigned drained;
};

static void on_message(void *arg, struct channel *c, const struct ctl_msg *msg, int fd)
{
	struct seen *seen = arg;
	struct text t = msg->field[1].bytes;

	seen->messages++;
	seen->type = msg->type;
	seen->number = msg->field[0].number;
	seen->had_fd = fd >= 0;
	if (t.at != NULL)
		snprintf(seen->text, sizeof(seen->text), "%.*s", (int)t.len, t.at);
	if (fd >= 0) {
		cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC, "inherited by programs we start");
		close(fd);
	}
	if (seen->close_in_message) {
		channel_close(c);
		/* Somebody else's socket gets the number that is free now. */
		fixture_packet_pair(seen->others);
		fixture_send_packet(seen->others[0], "mine", 4, NULL, 0);
		fixture_send_packet(seen->others[1], "mine", 4, NULL, 0);
	}
}

static void on_closed(void *arg, struct channel *c, enum err why)
{
	struct seen *seen = arg;

	seen->closes++;
	seen->why = why;
	channel_close(c);
}

static void on_drained(void *arg, struct channel *c)
{
	struct seen *seen = arg;

	cr_assert_eq(channel_queued(c), 0);
	seen->drained++;
}

static struct channel *open_on(struct loop *l, int fd, unsigned from, struct seen *seen)
{
	struct channel *c = NULL;

	cr_assert_eq(channel_open(l, fd, from, 1 << 20, on_message, on_closed, seen, &c), ERR_OK);
	return c;
}

static size_t write_ack(uint8_t packet[64], uint64_t version)
{
	struct ctl_msg msg = { .type = CTL_ACK };

	msg.field[0].number = version;
	return ctl_msg_write(&msg, packet, 64);
}

static size_t write_root(uint8_t packet[64])
{
	struct ctl_msg msg = { .type = CTL_ROOT };

	msg.field[0].number = 7;
	return ctl_msg_write(&msg, packet, 64);
}

Test(channel, hands_over_whole_messages_in_order)
{
	struct loop *l = loop_create();
	struct seen seen = { 0 };
	struct channel *c;
	uint8_t packet[64];
	int fds[2];

	fixture_packet_pair(fds);
	c = open_on(l, fds[0], CTL_FROM_DAEMON, &seen);
	for (uint64_t i = 1; i <= 100; i++) {
		fixture_send_packet(fds[1], packet, write_ack(packet, i), NULL, 0);
		fixture_settle(l);
		cr_assert_eq(seen.number, i);
	}
	cr_assert_eq(seen.messages, 100);
	close(fds[1]);
	fixture_settle(l);
	cr_assert_eq(seen.closes, 1);
	cr_assert_eq(seen.why, ERR_CLOSED);
	(void)c;
	loop_destroy(l);
}

Test(channel, ends_at_every_packet_that_is_not_a_message_of_the_peer)
{
	size_t before = fixture_fd_count();
	uint8_t good[64], packet[64];
	size_t len = write_ack(good, 3);

	/* Every prefix, every flipped bit of the head, and one byte too many. */
	for (size_t i = 0; i < len + 32 + 1; i++) {
		struct loop *l = loop_create();
		struct seen seen = { 0 };
		size_t send_len = len;
		int fds[2];

		memcpy(packet, good, len);
		if (i < len) {
			send_len = i;
		} else if (i < len + 32) {
			packet[(i - len) / 8] ^= (uint8_t)(1U << ((i - len) % 8));
			/* One that is another message of the daemon with the same field. */
			if (packet[3] != good[3] && ctl_row(packet[3]) != NULL &&
			    strcmp(ctl_row(packet[3])->fields, "u") == 0)
				packet[0] ^= 1;
		} else {
			packet[send_len++] = 0;
		}
		fixture_packet_pair(fds);
		open_on(l, fds[0], CTL_FROM_DAEMON, &seen);
		if (send_len > 0)
			fixture_send_packet(fds[1], packet, send_len, NULL, 0);
		else
			close(fds[1]);
		fixture_settle(l);
		cr_assert_eq(seen.messages, 0, "case %zu", i);
		cr_assert_eq(seen.closes, 1, "case %zu", i);
		if (send_len > 0)
			close(fds[1]);
		loop_destroy(l);
	}
	cr_assert_eq(fixture_fd_count(), before);
}

Test(channel, takes_the_longest_message_and_nothing_behind_it)
{
	static uint8_t packet[CTL_MSG_MAX + 1];
	static char text[65000];
	struct ctl_msg msg = { .type = CTL_STATUS };
	size_t len;

	memset(text, 'x', sizeof(text));
	msg.field[0].bytes = (struct text){ text, sizeof(text) };
	msg.field[1].bytes = (struct text){ text, CTL_MSG_MAX - sizeof(text) - 12 };
	len = ctl_msg_write(&msg, packet, CTL_MSG_MAX);
	cr_assert_eq(len, CTL_MSG_MAX);
	for (size_t more = 0; more <= 1; more++) {
		struct loop *l = loop_create();
		struct seen seen = { 0 };
		struct channel *c;
		int fds[2];

		fixture_packet_pair(fds);
		c = open_on(l, fds[0], CTL_FROM_SIDECAR, &seen);
		fixture_send_packet(fds[1], packet, len + more, NULL, 0);
		fixture_settle(l);
		cr_expect_eq(seen.messages, 1 - more);
		cr_expect_eq(seen.closes, more);
		if (more == 0)
			channel_close(c);
		close(fds[1]);
		loop_destroy(l);
	}
}

Test(channel, ends_when_descriptors_were_lost_on_the_way)
{
	struct loop *l = loop_create();
	struct seen seen = { 0 };
	struct rlimit limit, before;
	uint8_t root[64];
	size_t len = write_root(root);
	int fds[2], two[2] = { 0, 0 }, next;

	fixture_packet_pair(fds);
	open_on(l, fds[0], CTL_FROM_SIDECAR, &seen);
	fixture_send_packet(fds[1], root, len, two, 2);
	/* There is room for one of the two, and one is what the table wants. */
	next = dup(0);
	close(next);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = (struct rlimit){ .rlim_cur = (rlim_t)next + 1, .rlim_max = before.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	fixture_settle(l);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	cr_assert_eq(seen.messages, 0);
	cr_assert_eq(seen.why, ERR_INVALID);
	close(fds[1]);
	loop_destroy(l);
}

Test(channel, takes_exactly_the_descriptors_of_the_table_and_keeps_no_other)
{
	size_t before = fixture_fd_count();
	uint8_t ack[64], root[64];
	size_t ack_len = write_ack(ack, 1), root_len = write_root(root);

	for (size_t count = 0; count <= 16; count++) {
		for (unsigned wants = 0; wants <= 1; wants++) {
			struct loop *l = loop_create();
			struct seen seen = { 0 };
			struct channel *c;
			int fds[2], passed[16];
			bool fits = count == wants;

			for (size_t i = 0; i < count; i++)
				passed[i] = 0;
			fixture_packet_pair(fds);
			c = open_on(l, fds[0], CTL_FROM_DAEMON | CTL_FROM_SIDECAR, &seen);
			fixture_send_packet(fds[1], wants ? root : ack, wants ? root_len : ack_len,
					    passed, count);
			fixture_settle(l);
			cr_assert_eq(seen.messages, fits ? 1 : 0, "%zu %u", count, wants);
			cr_assert_eq(seen.closes, fits ? 0 : 1, "%zu %u", count, wants);
			cr_assert_eq(seen.had_fd, fits && wants);
			if (fits)
				channel_close(c);
			close(fds[1]);
			loop_destroy(l);
			cr_assert_eq(fixture_fd_count(), before, "%zu %u", count, wants);
		}
	}
}

Test(channel, refuses_what_another_side_may_say)
{
	for (unsigned narrowed = 0; narrowed <= 1; narrowed++) {
		struct loop *l = loop_create();
		struct seen seen = { 0 };
		struct channel *c;
		uint8_t packet[64];
		int fds[2];

		fixture_packet_pair(fds);
		c = open_on(l, fds[0], CTL_FROM_TOOL | CTL_FROM_DAEMON, &seen);
		if (narrowed)
			channel_restrict(c, CTL_FROM_TOOL);
		fixture_send_packet(fds[1], packet, write_ack(packet, 1), NULL, 0);
		fixture_settle(l);
		cr_assert_eq(seen.messages, narrowed ? 0 : 1);
		cr_assert_eq(seen.closes, narrowed ? 1 : 0);
		if (!narrowed)
			channel_close(c);
		close(fds[1]);
		loop_destroy(l);
	}
}

Test(channel, may_be_closed_while_it_hands_over)
{
	size_t before = fixture_fd_count();
	struct loop *l = loop_create();
	struct seen seen = { .close_in_message = true };
	uint8_t packet[64];
	int fds[2];

	fixture_packet_pair(fds);
	open_on(l, fds[0], CTL_FROM_DAEMON, &seen);
	for (uint64_t i = 0; i < 3; i++)
		fixture_send_packet(fds[1], packet, write_ack(packet, i), NULL, 0);
	fixture_settle(l);
	cr_assert_eq(seen.messages, 1);
	cr_assert_eq(seen.closes, 0);
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(recv(seen.others[i], packet, sizeof(packet), MSG_DONTWAIT), 4,
			     "what was sent to the other's owner is still there");
	close(seen.others[0]);
	close(seen.others[1]);
	close(fds[1]);
	loop_destroy(l);
	cr_assert_eq(fixture_fd_count(), before);
}

Test(channel, queues_for_a_slow_reader_up_to_its_limit_and_keeps_the_order)
{
	size_t before = fixture_fd_count();
	struct loop *l = loop_create();
	struct seen seen = { 0 };
	static uint8_t packet[CTL_MSG_MAX];
	static char long_text[15000];
	struct ctl_msg msg = { .type = CTL_OUTPUT };
	struct channel *c;
	uint64_t sent = 0, done_count = 0;
	enum err e;
	int fds[2];

	memset(long_text, 'x', sizeof(long_text));
	fixture_packet_pair(fds);
	c = open_on(l, fds[0], CTL_FROM_DAEMON, &seen);
	msg.field[1].bytes = (struct text){ long_text, sizeof(long_text) };
	do {
		msg.field[0].number = ++sent;
		e = channel_send(c, &msg, -1);
		cr_assert_lt(sent, 1000);
	} while (e == ERR_OK);
	cr_assert_eq(e, ERR_LIMIT);
	cr_assert_leq(channel_queued(c), (size_t)1 << 20);
	cr_assert_gt(channel_queued(c), ((size_t)1 << 20) - sizeof(packet));
	/* The end of an answer still fits, but not endlessly. */
	for (;; done_count++) {
		struct ctl_msg done = { .type = CTL_DONE };

		done.field[0].number = sent + done_count;
		e = channel_send(c, &done, -1);
		cr_assert(done_count > 0 || e == ERR_OK);
		if (e == ERR_LIMIT)
			break;
		cr_assert_lt(done_count, 100000);
	}
	cr_assert_gt(channel_queued(c), (size_t)1 << 20);
	cr_assert_leq(channel_queued(c), ((size_t)1 << 20) + 16384);
	channel_tell_drained(c, on_drained);
	for (uint64_t i = 1; i < sent + done_count; i++) {
		struct ctl_msg got;
		ssize_t n = recv(fds[1], packet, sizeof(packet), 0);

		cr_assert_gt(n, 0);
		cr_assert_eq(ctl_msg_read(packet, (size_t)n, &got), PARSED_OK);
		cr_assert_eq(got.field[0].number, i);
		loop_turn(l, 0);
	}
	for (unsigned i = 0; i < 10000 && channel_queued(c) > 0; i++) {
		loop_turn(l, 0);
		while (recv(fds[1], packet, sizeof(packet), MSG_DONTWAIT) > 0)
			;
	}
	cr_assert_eq(seen.drained, 1);
	cr_assert_eq(seen.closes, 0);
	channel_close(c);
	close(fds[1]);
	loop_destroy(l);
	cr_assert_eq(fixture_fd_count(), before);
}

Test(channel, lets_no_message_overtake_those_that_wait)
{
	struct loop *l = loop_create();
	struct seen seen = { 0 };
	static uint8_t packet[CTL_MSG_MAX];
	static char long_text[60000];
	struct ctl_msg msg = { .type = CTL_OUTPUT }, got;
	struct channel *c;
	uint64_t sent = 0;
	ssize_t n;
	int fds[2];

	fixture_packet_pair(fds);
	c = open_on(l, fds[0], CTL_FROM_DAEMON, &seen);
	msg.field[1].bytes = (struct text){ long_text, sizeof(long_text) };
	memset(long_text, 'x', sizeof(long_text));
	while (channel_queued(c) == 0) {
		msg.field[0].number = ++sent;
		cr_assert_eq(channel_send(c, &msg, -1), ERR_OK);
	}
	/* Now there is room in the socket, and somebody before us. */
	for (uint64_t i = 1; i < sent; i++)
		cr_assert_gt(recv(fds[1], packet, sizeof(packet), 0), 0);
	msg.field[0].number = sent + 1;
	cr_assert_eq(channel_send(c, &msg, -1), ERR_OK);
	fixture_settle(l);
	for (uint64_t i = sent; i <= sent + 1; i++) {
		n = recv(fds[1], packet, sizeof(packet), MSG_DONTWAIT);
		cr_assert_gt(n, 0);
		cr_assert_eq(ctl_msg_read(packet, (size_t)n, &got), PARSED_OK);
		cr_assert_eq(got.field[0].number, i);
	}
	channel_close(c);
	close(fds[1]);
	loop_destroy(l);
}

Test(channel, keeps_descriptors_of_queued_messages_and_closes_them_with_itself)
{
	size_t before = fixture_fd_count();
	struct loop *l = loop_create();
	struct seen seen = { 0 };
	struct ctl_msg msg = { .type = CTL_WELCOME };
	struct channel *c;
	unsigned sent = 0;
	int fds[2], passed = open("/dev/null", O_RDONLY | O_CLOEXEC);

	fixture_packet_pair(fds);
	c = open_on(l, fds[0], CTL_FROM_SIDECAR, &seen);
	while (channel_queued(c) < 200) {
		cr_assert_eq(channel_send(c, &msg, passed), ERR_OK);
		cr_assert_lt(++sent, 100000);
	}
	close(passed);
	cr_assert_gt(fixture_fd_count(), before + 2, "the waiting ones need their own");
	channel_close(c);
	close(fds[1]);
	loop_destroy(l);
	cr_assert_eq(fixture_fd_count(), before);
}

Test(channel, tells_of_a_broken_peer_from_the_loop_only)
{
	struct loop *l = loop_create();
	struct seen seen = { 0 };
	struct ctl_msg msg = { .type = CTL_ACK };
	struct channel *c;
	int fds[2];

	fixture_packet_pair(fds);
	c = open_on(l, fds[0], CTL_FROM_SIDECAR, &seen);
	close(fds[1]);
	cr_assert_eq(channel_send(c, &msg, -1), ERR_CLOSED);
	cr_assert_eq(seen.closes, 0);
	fixture_settle(l);
	cr_assert_eq(seen.closes, 1);
	loop_destroy(l);
}

Test(channel, refuses_a_descriptor_that_the_table_does_not_have)
{
	struct loop *l = loop_create();
	struct seen seen = { 0 };
	struct ctl_msg ack = { .type = CTL_ACK }, root = { .type = CTL_ROOT };
	struct ctl_msg bad = { .type = CTL_TYPE_COUNT };
	struct channel *c;
	int fds[2];

	fixture_packet_pair(fds);
	c = open_on(l, fds[0], CTL_FROM_SIDECAR, &seen);
	cr_assert_eq(channel_send(c, &ack, 0), ERR_INVALID);
	cr_assert_eq(channel_send(c, &root, -1), ERR_INVALID);
	cr_assert_eq(channel_send(c, &bad, -1), ERR_INVALID);
	channel_close(c);
	close(fds[1]);
	loop_destroy(l);
}

Test(channel, knows_who_dialled)
{
	struct loop *l = loop_create();
	struct seen seen = { 0 };
	struct channel *c;
	char folder[64], path[100];
	int listening, dialled, accepted;

	fixture_make_folder(folder);
	snprintf(path, sizeof(path), "%s/control", folder);
	cr_assert_eq(channel_listen(path, &listening), ERR_OK);
	cr_assert_eq(channel_accept(listening, &accepted), ERR_AGAIN);
	cr_assert_eq(channel_dial(path, 1000, &dialled), ERR_OK);
	cr_assert_eq(channel_accept(listening, &accepted), ERR_OK);
	c = open_on(l, accepted, CTL_FROM_TOOL, &seen);
	cr_assert_eq(channel_peer(c)->uid, getuid());
	cr_assert_eq(channel_peer(c)->pid, getpid());
	channel_close(c);
	close(dialled);
	close(listening);
	loop_destroy(l);
	fixture_remove_folder(folder);
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	cr_assert_eq(lstat(path, &st), 0);
	return st.st_mode & 07777;
}

Test(channel, listens_on_a_path_only_when_nobody_else_does)
{
	size_t before = fixture_fd_count();
	char folder[64], path[100];
	int first, second;

	fixture_make_folder(folder);
	snprintf(path, sizeof(path), "%s/control", folder);
	for (unsigned i = 0; i < 2; i++) {
		umask(i == 0 ? 0 : 0177);
		cr_assert_eq(channel_listen(path, &first), ERR_OK);
		cr_assert_eq(mode_of(path), 0660);
		cr_assert_eq(channel_listen(path, &second), ERR_EXISTS);
		/* What a killed program leaves behind. */
		close(first);
		cr_assert_eq(channel_dial(path, 100, &second), ERR_CLOSED);
	}
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(channel_dial(path, 100, &second), ERR_NOT_FOUND);
	/* Never removes what is no socket. */
	first = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(first);
	cr_assert_eq(channel_listen(path, &second), ERR_EXISTS);
	cr_assert_eq(access(path, F_OK), 0);
	cr_assert_eq(fixture_fd_count(), before);
	fixture_remove_folder(folder);
}

Test(channel, refuses_paths_that_do_not_fit)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
	size_t before = fixture_fd_count();
	int fd;

	cr_assert_eq(channel_listen("", &fd), ERR_INVALID);
	cr_assert_eq(channel_dial("", 10, &fd), ERR_INVALID);
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	cr_assert_eq(channel_listen(path, &fd), ERR_INVALID);
	cr_assert_eq(channel_dial(path, 10, &fd), ERR_INVALID);
	cr_assert_eq(channel_listen("/nonexistent/folder/socket", &fd), ERR_SYSTEM);
	cr_assert_eq(fixture_fd_count(), before);
}
