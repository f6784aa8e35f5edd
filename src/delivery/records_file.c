/* One open file and how far the lines in hand are written; see records_file.h. */
#include "delivery/records_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "decision/record_json.h"

#define RETRY_MS 1000
#define END_MAX (256u << 10) /* bytes of an earlier end that are looked at: several batches of drain */

struct records_file {
	struct loop *loop;          /* borrowed */
	loop_fn *on_ready;
	void *arg;                  /* borrowed */
	char *path;                 /* owned; NULL: none */
	int fd;                     /* owned; -1: not open */
	dev_t device;
	ino_t inode;
	size_t written;             /* of the lines in hand; may stand inside of one */
	bool is_fresh;              /* another file than the one that has a part of a line */
	bool has_failed, was_opened;
	struct loop_watch *writable; /* lent while it is full */
	uint64_t not_before_ms;
	char *end;                  /* owned: what the file ended with at start; NULL: not wanted any more */
	size_t end_len;
	struct log_limit complaint;
};

static void stop_waiting(struct records_file *f)
{
	loop_return_write(f->writable);
	f->writable = NULL;
	f->not_before_ms = 0;
}

static void close_file(struct records_file *f)
{
	stop_waiting(f);
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	f->is_fresh = true;
}

static void fail(struct records_file *f, const char *what)
{
	if (!f->has_failed)
		log_limited(&f->complaint, LOG_LEVEL_ERROR, "%s path=%s error=\"%s\" errno=%d", what, f->path, strerror(errno), errno);
	f->has_failed = true;
	f->not_before_ms = loop_now_ms(f->loop) + RETRY_MS;
}

/*
 * A line that whoever died had written a part of is in the ring still and comes whole. Also keep what stands before it, once, for
 * records_file_ends_with.
 */
static void mend_end(struct records_file *f, int fd, off_t size)
{
	off_t from = size > END_MAX ? size - END_MAX : 0;
	char *end = alloc_zeroed((size_t)(size - from) + 1);
	ssize_t n = end == NULL ? -1 : pread(fd, end, (size_t)(size - from), from);
	const char *last = n <= 0 ? NULL : memrchr(end, '\n', (size_t)n);
	size_t kept = last == NULL ? 0 : (size_t)(last - end) + 1;

	if (n > 0 && (size_t)n - kept > 0 && (size_t)n - kept < RECORD_JSON_MAX && end[kept] == '{' && ftruncate(fd, from + (off_t)kept) != 0)
		log_line(LOG_LEVEL_WARN, "records_end_not_mended path=%s errno=%d", f->path, errno);
	if (f->was_opened || n <= 0) {
		alloc_free(end);
		return;
	}
	f->end = end;
	f->end_len = kept;
}

static void open_file(struct records_file *f)
{
	struct stat st;
	bool is_file = stat(f->path, &st) == 0 ? S_ISREG(st.st_mode) : errno == ENOENT;
	/* Not blocking, for a FIFO without a reader. */
	int fd = open(f->path, (is_file ? O_RDWR : O_WRONLY) | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640);

	if (fd < 0 && is_file && errno == EACCES)
		fd = open(f->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640);
	if (fd < 0 || fstat(fd, &st) != 0) {
		fail(f, "records_not_opened");
		if (fd >= 0)
			close(fd);
		return;
	}
	if (S_ISREG(st.st_mode))
		mend_end(f, fd, st.st_size);
	f->fd = fd;
	f->device = st.st_dev;
	f->inode = st.st_ino;
	f->has_failed = false;
	f->was_opened = true;
}

enum err records_file_create(struct loop *loop, loop_fn *on_ready, void *arg, struct records_file **out_file)
{
	struct records_file *f = alloc_zeroed(sizeof(*f));

	if (f == NULL)
		return ERR_NO_MEMORY;
	f->loop = loop;
	f->on_ready = on_ready;
	f->arg = arg;
	f->fd = -1;
	f->complaint = (struct log_limit){ .burst = 3, .interval_ms = 60000 };
	*out_file = f;
	return ERR_OK;
}

void records_file_destroy(struct records_file *f)
{
	if (f == NULL)
		return;
	close_file(f);
	alloc_free(f->path);
	alloc_free(f->end);
	alloc_free(f);
}

enum err records_file_set_path(struct records_file *f, const char *path)
{
	char *copy = NULL;

	if (path != NULL && path[0] != '\0') {
		if (f->path != NULL && strcmp(f->path, path) == 0)
			return ERR_OK;
		copy = alloc_copy(path, strlen(path));
		if (copy == NULL)
			return ERR_NO_MEMORY;
	}
	close_file(f);
	alloc_free(f->path);
	f->path = copy;
	f->has_failed = false;
	if (copy != NULL)
		open_file(f);
	else
		f->written = 0;
	return ERR_OK;
}

bool records_file_is_wanted(const struct records_file *f)
{
	return f->path != NULL;
}

bool records_file_has_failed(const struct records_file *f)
{
	return f->has_failed;
}

void records_file_reopen(struct records_file *f)
{
	if (f->path == NULL)
		return;
	close_file(f);
	open_file(f);
}

void records_file_tick(struct records_file *f)
{
	struct stat st;

	if (f->path == NULL || f->fd < 0)
		return;
	if (stat(f->path, &st) == 0 ? st.st_dev != f->device || st.st_ino != f->inode : errno == ENOENT)
		records_file_reopen(f);
}

static void on_writable(void *arg, int fd, unsigned what)
{
	struct records_file *f = arg;

	stop_waiting(f);
	f->on_ready(f->arg);
}

/* A full pipe is waited for, anything else tried again later; a reader that is gone may come back. */
static void on_write_failed(struct records_file *f, int error)
{
	if (error == EAGAIN) {
		f->writable = loop_lend_write(f->loop, f->fd, on_writable, f);
		if (f->writable != NULL)
			return;
	}
	errno = error;
	fail(f, "records_not_written");
	if (error == EPIPE || error == EBADF) {
		uint64_t not_before_ms = f->not_before_ms;

		close_file(f);
		f->not_before_ms = not_before_ms;
	}
}

/* Back to the start of the line that the other file has a part of. */
static void begin_fresh(struct records_file *f, const char *lines)
{
	while (f->written > 0 && lines[f->written - 1] != '\n')
		f->written--;
	f->is_fresh = false;
}

bool records_file_write(struct records_file *f, const char *lines, size_t len)
{
	if (f->writable != NULL || loop_now_ms(f->loop) < f->not_before_ms)
		return false;
	if (f->fd < 0)
		open_file(f);
	if (f->fd < 0)
		return false;
	if (f->is_fresh)
		begin_fresh(f, lines);
	while (f->written < len) {
		ssize_t n = write(f->fd, lines + f->written, len - f->written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			on_write_failed(f, n == 0 ? ENOSPC : errno);
			return false;
		}
		f->written += (size_t)n;
		f->has_failed = false;
	}
	f->written = 0;
	return true;
}

void records_file_break_off(struct records_file *f)
{
	if (f->written > 0)
		records_file_reopen(f);
	f->written = 0;
}

bool records_file_ends_with(const struct records_file *f, const char *line, size_t len)
{
	return f->end != NULL && memmem(f->end, f->end_len, line, len) != NULL;
}

void records_file_forget_end(struct records_file *f)
{
	alloc_free(f->end);
	f->end = NULL;
}
