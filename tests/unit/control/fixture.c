/* Sockets and folders for the tests of src/control; fails the running test when the machine does not play along. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
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

void fixture_packet_pair(int out_fds[2])
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, out_fds), 0);
}

bool fixture_turn_until(struct loop *l, const bool *done)
{
	uint64_t from_ms = clock_mono_ms();

	while (!*done && clock_mono_ms() - from_ms < PATIENCE_MS)
		loop_turn(l, 20);
	return *done;
}

void fixture_settle(struct loop *l)
{
	for (unsigned i = 0; i < 5; i++)
		loop_turn(l, 0);
}

void fixture_send_packet(int fd, const void *bytes, size_t len, const int *fds, size_t count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(16 * sizeof(int))];
	} ancillary = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = len };
	struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };

	cr_assert_leq(count, 16);
	if (count > 0) {
		struct cmsghdr *c;

		header.msg_control = &ancillary;
		header.msg_controllen = CMSG_SPACE(count * sizeof(int));
		c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	}
	cr_assert_eq(sendmsg(fd, &header, MSG_NOSIGNAL), (ssize_t)len);
}

void fixture_make_folder(char out_path[64])
{
	snprintf(out_path, 64, "/tmp/egress-control-XXXXXX");
	cr_assert_not_null(mkdtemp(out_path));
}

void fixture_remove_folder(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char child[512];

	cr_assert_not_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
		if (entry->d_name[0] != '.')
			unlink(child);
	}
	closedir(dir);
	cr_assert_eq(rmdir(path), 0);
}
