/* Folders, files and a raw peer for the tests of src/sidecar; fails the running test when the machine does not play along. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
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

void fixture_make_folder(char out_path[64])
{
	snprintf(out_path, 64, "/tmp/egress-sidecar-XXXXXX");
	cr_assert_not_null(mkdtemp(out_path));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

void fixture_remove_folder(const char *path)
{
	cr_assert_eq(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

const char *fixture_path(const char *folder, const char *name)
{
	static char paths[8][256];
	static unsigned nth;
	char *path = paths[nth++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

void fixture_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	cr_assert(fd >= 0, "%s", path);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	cr_assert_eq(close(fd), 0);
}

const char *fixture_read(const char *path)
{
	static char text[1 << 16];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return NULL;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	cr_assert(n >= 0);
	text[n] = '\0';
	return text;
}

bool fixture_turn_until(struct loop *l, const bool *done)
{
	uint64_t from_ms = clock_mono_ms();

	while (!*done && clock_mono_ms() - from_ms < PATIENCE_MS)
		loop_turn(l, 5);
	return *done;
}

void fixture_settle(struct loop *l)
{
	for (unsigned i = 0; i < 5; i++)
		loop_turn(l, 0);
}

static void on_message(void *arg, struct channel *c, const struct ctl_msg *msg, int fd)
{
	if (fd >= 0)
		close(fd);
}

static void on_closed(void *arg, struct channel *c, enum err why)
{
	struct fixture_link *link = arg;

	link->closed++;
}

void fixture_link_open(struct fixture_link *link)
{
	int fds[2];

	link->closed = 0;
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	cr_assert_eq(channel_open(link->loop, fds[0], CTL_FROM_DAEMON, 1 << 20, on_message,
				  on_closed, link, &link->channel),
		     ERR_OK);
	link->other = fds[1];
}

void fixture_link_close(struct fixture_link *link)
{
	channel_close(link->channel);
	link->channel = NULL;
	close(link->other);
}

bool fixture_link_next(struct fixture_link *link, struct ctl_msg *out_msg, int *out_fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} ancillary;
	struct iovec iov = { link->packet, sizeof(link->packet) };
	struct msghdr header = { .msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = &ancillary,
				 .msg_controllen = sizeof(ancillary) };
	struct cmsghdr *c;
	ssize_t n = recvmsg(link->other, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	if (n <= 0)
		return false;
	cr_assert_eq(ctl_msg_read(link->packet, (size_t)n, out_msg), PARSED_OK);
	*out_fd = -1;
	c = CMSG_FIRSTHDR(&header);
	if (c != NULL)
		memcpy(out_fd, CMSG_DATA(c), sizeof(int));
	cr_assert_eq(*out_fd >= 0, ctl_row(out_msg->type)->takes_fd);
	return true;
}
