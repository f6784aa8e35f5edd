/* flock(2) on a file of its own: floors and revocations are replaced by rename, and a lock on them would go with the old file. */
#include "sidecar/state_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/text.h"

#define PID_ROOM 24

static int open_in(const char *folder)
{
	int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd, error;

	if (at < 0)
		return -1;
	fd = openat(at, STATE_LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	error = errno;
	close(at);
	errno = error;
	return fd;
}

static long read_holder(int fd)
{
	char line[PID_ROOM];
	ssize_t len = pread(fd, line, sizeof(line), 0);
	const char *end = len <= 0 ? NULL : memchr(line, '\n', (size_t)len);
	uint64_t pid;

	return end != NULL && text_to_u64((struct text){ line, (size_t)(end - line) }, INT32_MAX, &pid) ? (long)pid : 0;
}

/* For people only; the lock holds without it, and a full disk may have no room for it. */
static void write_holder(int fd)
{
	char line[PID_ROOM];
	int len = snprintf(line, sizeof(line), "%ld\n", (long)getpid());

	if (ftruncate(fd, 0) == 0 && write(fd, line, (size_t)len) != len)
		(void)!ftruncate(fd, 0);
}

enum err state_lock_take(const char *folder, int *out_fd, long *out_holder)
{
	int fd = open_in(folder), error;

	if (fd < 0)
		return ERR_SYSTEM;
	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno == EINTR)
			continue;
		error = errno;
		if (error == EWOULDBLOCK)
			*out_holder = read_holder(fd);
		close(fd);
		errno = error;
		return error == EWOULDBLOCK ? ERR_AGAIN : ERR_SYSTEM;
	}
	write_holder(fd);
	*out_fd = fd;
	return ERR_OK;
}
