/* Files below one folder; see source.h. No link is ever followed, so what was judged is what is read. */
#include "compiler/source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

#define PATH_LEN_MAX 4095
#define NS_PER_S 1000000000
#define NS_PER_MS 1000000
#define YOUNG_MS 20 /* file times move on in ticks, of 10 ms at most */

static enum err say(char *reason, enum err err, const char *format, ...) ATTR_PRINTF(3, 4);
static enum err say(char *reason, enum err err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reason, SOURCE_REASON_MAX, format, args);
	va_end(args);
	return err;
}

static struct source_stamp stamp_of(const struct stat *st)
{
	return (struct source_stamp){
		.device = st->st_dev,
		.inode = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_ns = (int64_t)st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec,
		.ctime_ns = (int64_t)st->st_ctim.tv_sec * NS_PER_S + st->st_ctim.tv_nsec,
		.mode = st->st_mode,
		.uid = st->st_uid,
	};
}

static bool join(const char *folder, const char *name, char out_path[PATH_LEN_MAX + 1])
{
	int len = snprintf(out_path, PATH_LEN_MAX + 1, "%s%s%s", folder, name[0] == '\0' ? "" : "/", name);

	return len > 0 && len <= PATH_LEN_MAX;
}

enum err source_stamp(const char *folder, const char *name, struct source_stamp *out_stamp)
{
	char path[PATH_LEN_MAX + 1];

	return join(folder, name, path) ? source_stamp_at(AT_FDCWD, path, out_stamp) : ERR_LIMIT;
}

enum err source_stamp_at(int folder, const char *name, struct source_stamp *out_stamp)
{
	struct stat st;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		if (errno != ENOENT && errno != ENOTDIR)
			return ERR_SYSTEM;
		*out_stamp = (struct source_stamp){ 0 };
		return ERR_OK;
	}
	*out_stamp = stamp_of(&st);
	return ERR_OK;
}

bool source_stamp_is_equal(const struct source_stamp *a, const struct source_stamp *b)
{
	return !a->is_young && !b->is_young && a->device == b->device && a->inode == b->inode && a->size == b->size && a->mtime_ns == b->mtime_ns &&
	       a->ctime_ns == b->ctime_ns && a->mode == b->mode && a->uid == b->uid;
}

/* Whom could this belong to without anybody else having a say? */
static enum err judge_owner(const struct stat *st, const char *path, char *reason)
{
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return say(reason, ERR_DENIED, "%s belongs to user %u; it must belong to root or to the user that reads it", path,
			   (unsigned)st->st_uid);
	if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0 && !(S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) != 0))
		return say(reason, ERR_DENIED, "others may write %s; take it away with chmod go-w", path);
	return ERR_OK;
}

/* Every folder of `path` from / down, and `path` itself, without following links. */
static enum err judge_way(const char *path, char *reason)
{
	char part[PATH_LEN_MAX + 1];
	size_t len = strlen(path);

	for (size_t i = 1; i <= len; i++) {
		struct stat st;
		enum err err;

		if (i < len && path[i] != '/' && i != 1)
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (lstat(part, &st) != 0)
			return say(reason, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, "%s: %s", part, strerror(errno));
		if (S_ISLNK(st.st_mode)) {
			if (st.st_uid != 0 && st.st_uid != geteuid())
				return say(reason, ERR_DENIED, "the link %s belongs to user %u", part, (unsigned)st.st_uid);
			continue;
		}
		err = judge_owner(&st, part, reason);
		if (err != ERR_OK)
			return err;
		if (i == len && (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
			return say(reason, ERR_DENIED, "others may write into %s; take it away with chmod go-w", part);
	}
	return ERR_OK;
}

enum err source_trust(const char *path, char out_reason[SOURCE_REASON_MAX])
{
	char real[PATH_MAX];
	enum err err;

	if (path[0] != '/' || strlen(path) > PATH_LEN_MAX)
		return say(out_reason, ERR_INVALID, "%.200s is not an absolute path", path);
	err = judge_way(path, out_reason);
	if (err != ERR_OK)
		return err;
	/* The way may lead through links that root or we made: where it ends must be as safe. */
	if (realpath(path, real) == NULL)
		return say(out_reason, ERR_SYSTEM, "%s: %s", path, strerror(errno));
	return judge_way(real, out_reason);
}

static enum err read_whole(int fd, size_t max, struct arena *arena, struct text *out_text)
{
	struct stat st;
	size_t len = 0, room;
	char *bytes;

	if (fstat(fd, &st) != 0)
		return ERR_SYSTEM;
	if ((uint64_t)st.st_size > max)
		return ERR_LIMIT;
	/* One byte more than its size, so that a file that grew is noticed. */
	room = (size_t)st.st_size + 1;
	bytes = arena_take(arena, room);
	if (bytes == NULL)
		return ERR_NO_MEMORY;
	while (len < room) {
		ssize_t got = read(fd, bytes + len, room - len);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return ERR_SYSTEM;
		if (got == 0)
			break;
		len += (size_t)got;
	}
	if (len != (size_t)st.st_size)
		return ERR_AGAIN;
	*out_text = (struct text){ bytes, len };
	return ERR_OK;
}

static enum err judge_file(int fd, const char *path, const struct source_options *options, struct stat *out_st, char *reason)
{
	if (fstat(fd, out_st) != 0)
		return say(reason, ERR_SYSTEM, "%s: %s", path, strerror(errno));
	if (!S_ISREG(out_st->st_mode))
		return say(reason, ERR_DENIED, "%s is not a plain file", path);
	return options->trust_check ? judge_owner(out_st, path, reason) : ERR_OK;
}

/* By the clock of before it was read, ahead or behind. */
static bool is_young(const struct source_stamp *stamp, uint64_t now_ms)
{
	uint64_t changed_ms = (uint64_t)stamp->ctime_ns / NS_PER_MS;

	return changed_ms < now_ms + YOUNG_MS && now_ms < changed_ms + YOUNG_MS;
}

enum err source_read(const char *folder, const char *name, size_t max, const struct source_options *options, struct arena *arena,
		     struct text *out_text, struct source_stamp *out_stamp, char out_reason[SOURCE_REASON_MAX])
{
	char path[PATH_LEN_MAX + 1];
	struct source_stamp before, after;
	struct stat st;
	struct text text;
	uint64_t now_ms = clock_wall_ms();
	enum err err;
	int fd;

	if (!join(folder, name, path))
		return say(out_reason, ERR_LIMIT, "the path is too long");
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return say(out_reason, errno == ENOENT ? ERR_NOT_FOUND : errno == ELOOP ? ERR_DENIED : ERR_SYSTEM, "%s: %s", path,
			   errno == ELOOP ? "links are not followed" : strerror(errno));
	err = judge_file(fd, path, options, &st, out_reason);
	if (err != ERR_OK)
		goto out;
	before = stamp_of(&st);
	err = read_whole(fd, max, arena, &text);
	if (err != ERR_OK) {
		say(out_reason, err, "%s: %s", path,
		    err == ERR_LIMIT ? "the file is too long" : err == ERR_AGAIN ? "it changed while it was read" : err_text(err));
		goto out;
	}
	if (fstat(fd, &st) != 0) {
		err = say(out_reason, ERR_SYSTEM, "%s: %s", path, strerror(errno));
		goto out;
	}
	after = stamp_of(&st);
	if (!source_stamp_is_equal(&before, &after)) {
		err = say(out_reason, ERR_AGAIN, "%s changed while it was read", path);
		goto out;
	}
	after.is_young = is_young(&after, now_ms);
	*out_text = text;
	*out_stamp = after;
out:
	close(fd);
	return err;
}

bool source_is_same(const char *folder, const char *name, size_t max, const struct source_options *options, struct text text,
		    struct source_stamp *io_stamp)
{
	char reason[SOURCE_REASON_MAX];
	struct source_stamp stamp;
	struct arena arena;
	struct text now;
	bool is_same;

	if (!io_stamp->is_young)
		return false;
	arena_init(&arena, 0);
	is_same = source_read(folder, name, max, options, &arena, &now, &stamp, reason) == ERR_OK && text_equal(now, text);
	if (is_same)
		*io_stamp = stamp;
	arena_finish(&arena);
	return is_same;
}

bool source_preset_name_is_valid(struct text name)
{
	if (name.len == 0 || name.len > 64)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		char c = name.at[i];

		if (!(c >= 'a' && c <= 'z') && !text_is_digit(c) && c != '-' && c != '_')
			return false;
	}
	return true;
}
