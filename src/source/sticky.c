/*
 * One small text file: a first line that says what it is, then a line "lease rev digest" each. Promises that a reader
 * finds the old list or the new one, whole, and that a revocation is never lost by a crash after it was acknowledged.
 */
#include "source/sticky.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"

#define FILE_NAME "revoked"
#define FRESH_NAME "revoked.new"
#define HEAD "egressd revocations 1\n"
#define ID_MAX 64
#define LINE_MAX_LEN (ID_MAX + 1 + 20 + 1 + 2 * STICKY_PRINT_LEN + 1)

struct sticky_entry {
	char lease[ID_MAX + 1];
	struct sticky_state state;
};

struct sticky {
	int folder;                   /* owned */
	struct sticky_entry *entries; /* owned */
	size_t count, capacity;
};

static struct sticky_entry *find(const struct sticky *s, const char *lease)
{
	for (size_t i = 0; i < s->count; i++) {
		if (strcmp(s->entries[i].lease, lease) == 0)
			return &s->entries[i];
	}
	return NULL;
}

static enum err put(struct sticky *s, struct text lease, const struct sticky_state *state)
{
	struct sticky_entry *entry;

	if (lease.len == 0 || lease.len > ID_MAX)
		return ERR_INVALID;
	if (s->count == STICKY_MAX)
		return ERR_LIMIT;
	if (s->count == s->capacity) {
		size_t capacity = s->capacity == 0 ? 16 : 2 * s->capacity;
		void *larger = alloc_resize(s->entries, capacity, sizeof(s->entries[0]));

		if (larger == NULL)
			return ERR_NO_MEMORY;
		s->entries = larger;
		s->capacity = capacity;
	}
	entry = &s->entries[s->count++];
	memcpy(entry->lease, lease.at, lease.len);
	entry->lease[lease.len] = '\0';
	entry->state = *state;
	return ERR_OK;
}

static enum err read_line(struct sticky *s, struct text line)
{
	struct text lease = text_take_until(&line, ' '), rev = text_take_until(&line, ' '), print = text_take_until(&line, ' ');
	struct sticky_state state;

	if (line.len > 0 || !text_to_u64(rev, UINT64_MAX, &state.rev) ||
	    !text_to_bytes_hex(print, state.print, sizeof(state.print)))
		return ERR_INVALID;
	return put(s, lease, &state);
}

static enum err read_all(struct sticky *s, struct text text)
{
	size_t head = strlen(HEAD);

	if (text.len < head || memcmp(text.at, HEAD, head) != 0)
		return ERR_INVALID;
	text.at += head;
	text.len -= head;
	while (text.len > 0) {
		const char *end = memchr(text.at, '\n', text.len);
		size_t len;
		enum err e;

		if (end == NULL)
			return ERR_INVALID;
		len = (size_t)(end - text.at);
		e = read_line(s, (struct text){ text.at, len });
		if (e != ERR_OK)
			return e;
		text.at += len + 1;
		text.len -= len + 1;
	}
	return ERR_OK;
}

static enum err read_file(struct sticky *s)
{
	size_t max = strlen(HEAD) + (size_t)STICKY_MAX * LINE_MAX_LEN, len = 0;
	char *bytes = NULL;
	struct stat st;
	enum err e = ERR_SYSTEM;
	int fd = openat(s->folder, FILE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return errno == ENOENT ? ERR_OK : ERR_SYSTEM;
	if (fstat(fd, &st) != 0)
		goto out;
	e = ERR_INVALID;
	if (!S_ISREG(st.st_mode) || st.st_size < 0 || (size_t)st.st_size > max)
		goto out;
	e = ERR_NO_MEMORY;
	bytes = alloc_zeroed((size_t)st.st_size + 1);
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
	e = read_all(s, (struct text){ bytes, len });
out:
	close(fd);
	alloc_free(bytes);
	return e;
}

enum err sticky_open(const char *folder, struct sticky **out_sticky)
{
	struct sticky *s = alloc_zeroed(sizeof(*s));
	enum err e;

	if (s == NULL)
		return ERR_NO_MEMORY;
	s->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	e = s->folder < 0 ? ERR_SYSTEM : read_file(s);
	if (e != ERR_OK) {
		sticky_close(s);
		return e;
	}
	*out_sticky = s;
	return ERR_OK;
}

void sticky_close(struct sticky *s)
{
	if (s == NULL)
		return;
	if (s->folder >= 0)
		close(s->folder);
	alloc_free(s->entries);
	alloc_free(s);
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

static bool write_entries(const struct sticky *s, int fd)
{
	if (!write_whole(fd, HEAD, strlen(HEAD)))
		return false;
	for (size_t i = 0; i < s->count; i++) {
		char line[LINE_MAX_LEN + 1], digest[2 * STICKY_PRINT_LEN + 1];
		int len;

		text_from_bytes_hex(s->entries[i].state.print, STICKY_PRINT_LEN, digest);
		len = snprintf(line, sizeof(line), "%s %llu %s\n", s->entries[i].lease,
			       (unsigned long long)s->entries[i].state.rev, digest);
		if (!write_whole(fd, line, (size_t)len))
			return false;
	}
	return true;
}

/* Write beside, flush, rename, flush the folder. */
static enum err save(const struct sticky *s)
{
	int fd = openat(s->folder, FRESH_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
			0600);
	bool is_written;

	if (fd < 0)
		return ERR_SYSTEM;
	is_written = write_entries(s, fd) && fsync(fd) == 0;
	if (close(fd) != 0 || !is_written)
		return ERR_SYSTEM;
	if (renameat(s->folder, FRESH_NAME, s->folder, FILE_NAME) != 0 || fsync(s->folder) != 0)
		return ERR_SYSTEM;
	return ERR_OK;
}

size_t sticky_count(const struct sticky *s)
{
	return s->count;
}

const char *sticky_at(const struct sticky *s, size_t index)
{
	return s->entries[index].lease;
}

bool sticky_holds(const struct sticky *s, const char *lease)
{
	return find(s, lease) != NULL;
}

enum err sticky_add(struct sticky *s, const char *lease, const struct sticky_state *state)
{
	struct sticky_entry *entry = find(s, lease);

	if (entry != NULL) {
		entry->state = *state;
	} else {
		enum err e = put(s, text_of(lease), state);

		if (e != ERR_OK)
			return e;
	}
	return save(s);
}

static bool is_newer(const struct sticky_state *then, const struct sticky_state *now)
{
	if (then->rev != 0 || now->rev != 0)
		return now->rev > then->rev;
	return memcmp(then->print, now->print, sizeof(then->print)) != 0;
}

bool sticky_review(struct sticky *s, const char *lease, const struct sticky_state *state)
{
	struct sticky_entry *entry = find(s, lease), lifted;

	if (entry == NULL || !is_newer(&entry->state, state))
		return false;
	lifted = *entry;
	*entry = s->entries[--s->count];
	if (save(s) == ERR_OK)
		return true;
	/* There is room for it: it was here before. */
	s->entries[s->count++] = lifted;
	return false;
}
