/* See files.h. */
#include "authority/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_MAX 100000

enum err files_read(int folder, const char *name, size_t max, struct arena *arena, struct text *out_text)
{
	enum err e = ERR_SYSTEM;
	struct stat st;
	char *bytes;
	size_t len = 0;
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		goto out;
	e = ERR_LIMIT;
	if (st.st_size < 0 || (size_t)st.st_size > max)
		goto out;
	e = ERR_NO_MEMORY;
	bytes = arena_take(arena, (size_t)st.st_size + 1);
	if (bytes == NULL)
		goto out;
	e = ERR_SYSTEM;
	while (len < (size_t)st.st_size) {
		ssize_t n = read(fd, bytes + len, (size_t)st.st_size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			goto out;
		len += (size_t)n;
	}
	*out_text = (struct text){ bytes, len };
	e = ERR_OK;
out:
	close(fd);
	return e;
}

bool files_is_ours(int folder, const char *name, mode_t others)
{
	struct stat st;

	return fstatat(folder, name, &st, 0) == 0 && (st.st_uid == 0 || st.st_uid == geteuid()) && (st.st_mode & others) == 0;
}

static bool write_whole(int fd, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		bytes += n;
		len -= (size_t)n;
	}
	return true;
}

enum err files_write(int folder, const char *name, const void *bytes, size_t len, mode_t mode)
{
	bool is_written;
	int fd;

	/*
	 * Its own name starts with a dot, so that no reader of the folder takes it for a document. One that was left has another mode, and maybe
	 * a reader: a key must not be written into it.
	 */
	if (unlinkat(folder, ".fresh", 0) != 0 && errno != ENOENT)
		return ERR_SYSTEM;
	fd = openat(folder, ".fresh", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return ERR_SYSTEM;
	is_written = write_whole(fd, bytes, len) && fchmod(fd, mode) == 0;
	if (close(fd) != 0 || !is_written || renameat(folder, ".fresh", folder, name) != 0)
		return ERR_SYSTEM;
	return ERR_OK;
}

static int by_name(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

/* One name without its ending; NULL when it has another, or is hidden. */
static const char *take_name(struct arena *arena, const char *name, const char *ending)
{
	size_t len = strlen(name), ending_len = strlen(ending);

	if (name[0] == '.' || len <= ending_len || strcmp(name + len - ending_len, ending) != 0)
		return NULL;
	return arena_text(arena, name, len - ending_len);
}

enum err files_list(int folder, const char *sub, const char *ending, struct arena *arena, const char *const **out_names,
		    size_t *out_count)
{
	int fd = openat(folder, sub, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	const char **names;
	size_t count = 0, room = 0;

	*out_names = NULL;
	*out_count = 0;
	if (dir == NULL) {
		if (fd >= 0)
			close(fd);
		return errno == ENOENT ? ERR_OK : ERR_SYSTEM;
	}
	while (readdir(dir) != NULL && room < NAMES_MAX)
		room++;
	rewinddir(dir);
	names = arena_take_array(arena, room + 1, sizeof(*names));
	while (names != NULL && count < room && (entry = readdir(dir)) != NULL) {
		names[count] = take_name(arena, entry->d_name, ending);
		count += names[count] != NULL;
	}
	closedir(dir);
	if (names == NULL)
		return ERR_NO_MEMORY;
	qsort(names, count, sizeof(*names), by_name);
	*out_names = names;
	*out_count = count;
	return ERR_OK;
}
