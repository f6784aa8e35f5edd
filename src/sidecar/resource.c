/*
 * Files of the configuration that the daemon needs as descriptors. Promises that a replaced file is noticed, and that what
 * the daemon maps can change no more. Called by hand_over.
 */
#include "sidecar/resource_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define SNAPSHOT_MAX (1LL << 30) /* bytes */
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static bool has_path(const struct resource *r)
{
	return r->path != NULL && r->path[0] != '\0';
}

void resource_set_path(struct resource *r, const char *path)
{
	bool same = has_path(r) && path != NULL && strcmp(r->path, path) == 0;

	r->path = path;
	if (!same)
		r->is_due = has_path(r);
}

static void note(struct resource *r, const struct stat *st)
{
	r->device = st->st_dev;
	r->inode = st->st_ino;
	r->size = st->st_size;
	r->mtime = st->st_mtim;
}

static enum err copy_sealed(int from, off_t size, int *out_fd)
{
	int fd = memfd_create("egress-geo", MFD_CLOEXEC | MFD_ALLOW_SEALING), error;

	while (fd >= 0 && size > 0) {
		ssize_t n = sendfile(fd, from, NULL, (size_t)size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		size -= n;
	}
	if (fd >= 0 && size == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0) {
		*out_fd = fd;
		return ERR_OK;
	}
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return ERR_SYSTEM;
}

enum err resource_open(struct resource *r, int *out_fd)
{
	int from = open(r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	enum err e = ERR_SYSTEM;

	if (from < 0)
		return ERR_SYSTEM;
	if (fstat(from, &st) == 0) {
		e = !S_ISREG(st.st_mode) || st.st_size > SNAPSHOT_MAX ?
			    ERR_LIMIT :
			    copy_sealed(from, st.st_size, out_fd);
		if (e == ERR_OK)
			note(r, &st);
	}
	close(from);
	return e;
}

void resource_look(struct resource *r)
{
	struct stat st;

	if (!has_path(r) || r->is_due)
		return;
	/* A database that is gone stays in use: it is only missing for a moment while it is replaced. */
	if (stat(r->path, &st) == 0)
		r->is_due = st.st_dev != r->device || st.st_ino != r->inode || st.st_size != r->size ||
			    st.st_mtim.tv_sec != r->mtime.tv_sec || st.st_mtim.tv_nsec != r->mtime.tv_nsec;
}
