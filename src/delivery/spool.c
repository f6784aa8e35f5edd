/*
 * A folder of numbered files, the last one being appended to. Promises: a record that was appended is there after a kill; what is lost is
 * counted; a file changes only by append, or whole by rename. Called by drain (append) and upload (load, take, split).
 */
#include "delivery/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

#define FILE_READ_MAX (2u << 20) /* bytes; none of ours is longer */
#define FILES_MAX 65536
#define ASIDE_MAX 8              /* damaged files that are kept for a look */
#define NAME_LEN 16              /* hexadecimal digits */
#define NAME_ROOM 32

struct file {
	uint64_t number, bytes, records;
	uint64_t boot, first, last; /* sequences, lowest and highest */
	uint64_t since_ms;          /* wall */
};

/* Where a lane's lines in the spool end, of those found at start. */
struct mark {
	uint64_t boot, position;
	uint32_t lane;
};

struct spool {
	int folder;         /* owned */
	int fd;             /* owned: the last file, being appended to; -1: none */
	uint64_t bytes_max;
	bool may_drop;
	struct file *files; /* owned, oldest first */
	size_t file_count;
	struct mark *marks; /* owned */
	size_t mark_count;
	uint64_t next_number;
	unsigned aside;     /* damaged files in the folder */
	bool is_loaded;     /* the first batch of the first file is with upload */
	size_t loaded_len, loaded_records;
	struct spool_counts counts;
	struct log_limit complaint;
};

static void name_of(uint64_t number, const char *suffix, char out_name[NAME_ROOM])
{
	snprintf(out_name, NAME_ROOM, "%016" PRIx64 "%s", number, suffix);
}

/* ---- files as a whole ---- */

/* INVALID: it is none of ours, or cannot be read; NO_MEMORY and SYSTEM pass. */
static enum err read_file(const struct spool *s, uint64_t number, uint8_t **out_bytes, size_t *out_len)
{
	char name[NAME_ROOM];
	uint8_t *bytes;
	size_t len = 0;
	struct stat st;
	ssize_t n = 0;
	int fd;

	name_of(number, "", name);
	fd = openat(s->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? ERR_SYSTEM : ERR_INVALID;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_READ_MAX) {
		close(fd);
		return ERR_INVALID;
	}
	bytes = alloc_zeroed((size_t)st.st_size + 1);
	while (bytes != NULL && len < (size_t)st.st_size && (n = read(fd, bytes + len, (size_t)st.st_size - len)) > 0)
		len += (size_t)n;
	close(fd);
	if (bytes == NULL)
		return ERR_NO_MEMORY;
	if (n < 0) {
		alloc_free(bytes);
		return ERR_INVALID;
	}
	*out_bytes = bytes;
	*out_len = len;
	return ERR_OK;
}

static bool write_all(int fd, const uint8_t *bytes, size_t len)
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

/* Put other bytes in the file's place, at once. */
static enum err replace_file(struct spool *s, struct file *f, const uint8_t *bytes, size_t len)
{
	char fresh[NAME_ROOM], name[NAME_ROOM];
	bool is_done;
	int fd;

	name_of(f->number, ".new", fresh);
	name_of(f->number, "", name);
	fd = openat(s->folder, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return ERR_SYSTEM;
	is_done = write_all(fd, bytes, len);
	close(fd);
	if (!is_done || renameat(s->folder, fresh, s->folder, name) != 0) {
		unlinkat(s->folder, fresh, 0);
		return ERR_SYSTEM;
	}
	s->counts.bytes += len - f->bytes;
	f->bytes = len;
	return ERR_OK;
}

static void forget_file(struct spool *s, size_t i)
{
	s->counts.bytes -= s->files[i].bytes;
	s->counts.records -= s->files[i].records;
	memmove(&s->files[i], &s->files[i + 1], (s->file_count - i - 1) * sizeof(*s->files));
	s->file_count--;
}

static enum err remove_file(struct spool *s, size_t i)
{
	char name[NAME_ROOM];

	name_of(s->files[i].number, "", name);
	if (unlinkat(s->folder, name, 0) != 0 && errno != ENOENT)
		return ERR_SYSTEM;
	forget_file(s, i);
	return ERR_OK;
}

/* Keep a damaged file for people, but not many of them. */
static void set_aside(struct spool *s, uint64_t number)
{
	char name[NAME_ROOM], aside[NAME_ROOM];

	name_of(number, "", name);
	name_of(number, ".bad", aside);
	s->counts.damaged_files++;
	log_line(LOG_LEVEL_ERROR, "spool_damaged file=%s", name);
	if (s->aside >= ASIDE_MAX || renameat(s->folder, name, s->folder, aside) != 0)
		unlinkat(s->folder, name, 0);
	else
		s->aside++;
}

static enum err add_file(struct spool *s, const struct file *file)
{
	struct file *more;

	if (s->file_count >= FILES_MAX)
		return ERR_LIMIT;
	more = alloc_resize(s->files, s->file_count + 1, sizeof(*more));
	if (more == NULL)
		return ERR_NO_MEMORY;
	s->files = more;
	s->files[s->file_count++] = *file;
	s->counts.bytes += file->bytes;
	s->counts.records += file->records;
	return ERR_OK;
}

static void seal(struct spool *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* ---- frames ---- */

static void count_line(struct file *f, const struct spool_frame *frame)
{
	f->boot = frame->boot;
	f->first = f->records == 0 || frame->sequence < f->first ? frame->sequence : f->first;
	f->last = frame->sequence > f->last ? frame->sequence : f->last;
	f->records++;
}

/* What the file holds, up to its end or to where it is torn (MORE, *out_good behind the last whole frame) or damaged (BAD). */
static enum parsed survey(const uint8_t *bytes, size_t len, struct file *f, size_t *out_good)
{
	struct spool_frame frame;
	size_t at = 0;
	enum parsed end = PARSED_OK;

	while (at < len && (end = spool_frame_take(bytes + at, len - at, &frame)) == PARSED_OK) {
		if (f->records > 0 && frame.boot != f->boot)
			return PARSED_BAD;
		if (frame.kind == SPOOL_FRAME_LINE)
			count_line(f, &frame);
		at += spool_frame_size(&frame);
	}
	*out_good = at;
	return end;
}

/* ---- what was there at start ---- */

static void mark_line(struct spool *s, const struct spool_frame *frame)
{
	struct mark *more;

	for (size_t i = 0; i < s->mark_count; i++) {
		if (s->marks[i].boot == frame->boot && s->marks[i].lane == frame->lane) {
			if (frame->position > s->marks[i].position)
				s->marks[i].position = frame->position;
			return;
		}
	}
	more = alloc_resize(s->marks, s->mark_count + 1, sizeof(*more));
	if (more == NULL)
		return; /* lines may be there twice, which numbers tell */
	s->marks = more;
	s->marks[s->mark_count++] = (struct mark){ frame->boot, frame->position, frame->lane };
}

static void mark_lines(struct spool *s, const uint8_t *bytes, size_t len)
{
	struct spool_frame frame;
	size_t at = 0;

	while (at < len && spool_frame_take(bytes + at, len - at, &frame) == PARSED_OK) {
		if (frame.kind == SPOOL_FRAME_LINE)
			mark_line(s, &frame);
		at += spool_frame_size(&frame);
	}
}

static enum err cut_off(struct spool *s, uint64_t number, size_t len)
{
	char name[NAME_ROOM];
	int fd, failed;

	name_of(number, "", name);
	fd = openat(s->folder, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return ERR_SYSTEM;
	failed = ftruncate(fd, (off_t)len);
	close(fd);
	s->counts.torn++;
	log_line(LOG_LEVEL_WARN, "spool_torn file=%s kept=%zu", name, len);
	return failed == 0 ? ERR_OK : ERR_SYSTEM;
}

static uint64_t written_ms(const struct spool *s, uint64_t number)
{
	char name[NAME_ROOM];
	struct stat st;

	name_of(number, "", name);
	return fstatat(s->folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ?
		       clock_wall_ms() :
		       (uint64_t)st.st_mtim.tv_sec * 1000 + (uint64_t)st.st_mtim.tv_nsec / 1000000;
}

/* Take a file of an earlier run into the list, or put it out of the way. */
static enum err recover(struct spool *s, uint64_t number)
{
	struct file f = { .number = number, .since_ms = written_ms(s, number) };
	uint8_t *bytes = NULL;
	size_t len = 0, good = 0;
	enum parsed end = PARSED_BAD;
	enum err e = read_file(s, number, &bytes, &len);

	if (e == ERR_OK)
		end = survey(bytes, len, &f, &good);
	else if (e != ERR_INVALID)
		return e;
	e = ERR_OK;
	if (end == PARSED_BAD || (end == PARSED_MORE && cut_off(s, number, good) != ERR_OK)) {
		set_aside(s, number);
	} else {
		f.bytes = good;
		mark_lines(s, bytes, good);
		e = add_file(s, &f);
		if (e == ERR_OK && f.records == 0)
			e = remove_file(s, s->file_count - 1);
	}
	alloc_free(bytes);
	return e;
}

static bool read_name(const char *name, uint64_t *out_number)
{
	if (strspn(name, "0123456789abcdef") != NAME_LEN)
		return false;
	*out_number = strtoull(name, NULL, 16);
	return true;
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The numbers of the files there are, ascending; what a rename left undone is removed. */
static enum err list_files(struct spool *s, uint64_t **out_numbers, size_t *out_count)
{
	uint64_t *numbers = alloc_array(FILES_MAX, sizeof(*numbers)), number;
	int fd = openat(s->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	size_t count = 0;

	if (numbers == NULL || folder == NULL) {
		enum err e = numbers == NULL ? ERR_NO_MEMORY : ERR_SYSTEM;

		alloc_free(numbers);
		if (folder != NULL)
			closedir(folder);
		else if (fd >= 0)
			close(fd);
		return e;
	}
	while ((entry = readdir(folder)) != NULL) {
		if (!read_name(entry->d_name, &number))
			continue;
		if (entry->d_name[NAME_LEN] == '\0' && count < FILES_MAX)
			numbers[count++] = number;
		else if (strcmp(entry->d_name + NAME_LEN, ".new") == 0)
			unlinkat(s->folder, entry->d_name, 0);
		else if (strcmp(entry->d_name + NAME_LEN, ".bad") == 0)
			s->aside++;
	}
	closedir(folder);
	qsort(numbers, count, sizeof(*numbers), compare_numbers);
	*out_numbers = numbers;
	*out_count = count;
	return ERR_OK;
}

static enum err read_folder(struct spool *s)
{
	uint64_t *numbers = NULL;
	size_t count = 0;
	enum err e = list_files(s, &numbers, &count);

	for (size_t i = 0; e == ERR_OK && i < count; i++) {
		s->next_number = numbers[i] + 1;
		e = recover(s, numbers[i]);
	}
	alloc_free(numbers);
	return e;
}

static enum err open_folder(const char *state, int *out_folder)
{
	int around = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;

	if (around < 0)
		return ERR_SYSTEM;
	if (mkdirat(around, "spool", 0700) == 0 || errno == EEXIST)
		fd = openat(around, "spool", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	close(around);
	if (fd < 0)
		return ERR_SYSTEM;
	*out_folder = fd;
	return ERR_OK;
}

enum err spool_open(const char *state, uint64_t bytes_max, struct spool **out_spool)
{
	struct spool *s = alloc_zeroed(sizeof(*s));
	enum err e;

	if (s == NULL)
		return ERR_NO_MEMORY;
	s->folder = s->fd = -1;
	s->bytes_max = bytes_max;
	s->may_drop = true;
	s->complaint = (struct log_limit){ .burst = 3, .interval_ms = 60000 };
	e = open_folder(state, &s->folder);
	if (e == ERR_OK)
		e = read_folder(s);
	if (e != ERR_OK) {
		spool_close(s);
		return e;
	}
	*out_spool = s;
	return ERR_OK;
}

void spool_close(struct spool *s)
{
	if (s == NULL)
		return;
	seal(s);
	if (s->folder >= 0)
		close(s->folder);
	alloc_free(s->files);
	alloc_free(s->marks);
	alloc_free(s);
}

uint64_t spool_position(const struct spool *s, uint64_t boot, uint32_t lane)
{
	for (size_t i = 0; i < s->mark_count; i++) {
		if (s->marks[i].boot == boot && s->marks[i].lane == lane)
			return s->marks[i].position;
	}
	return 0;
}

/* ---- appending ---- */

void spool_set_dropping(struct spool *s, bool may_drop)
{
	s->may_drop = may_drop;
}

/* The oldest that is not with upload. */
static enum err drop_oldest(struct spool *s)
{
	size_t i = s->is_loaded ? 1 : 0;
	struct file lost;
	enum err e;

	if (!s->may_drop || i >= s->file_count)
		return ERR_LIMIT;
	if (i + 1 == s->file_count)
		seal(s);
	lost = s->files[i];
	e = remove_file(s, i);
	if (e != ERR_OK)
		return e;
	s->counts.dropped += lost.records;
	log_limited(&s->complaint, LOG_LEVEL_ERROR, "spool_dropped why=\"it is full\" boot=%016" PRIx64 " records=%" PRIu64 " from=%" PRIu64 " to=%" PRIu64,
		    lost.boot, lost.records, lost.first, lost.last);
	return ERR_OK;
}

static enum err open_next(struct spool *s)
{
	struct file f = { .number = s->next_number, .since_ms = clock_wall_ms() };
	char name[NAME_ROOM];
	int fd;
	enum err e;

	name_of(f.number, "", name);
	fd = openat(s->folder, name, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return ERR_SYSTEM;
	s->next_number++;
	e = add_file(s, &f);
	if (e != ERR_OK) {
		close(fd);
		unlinkat(s->folder, name, 0);
		return e;
	}
	s->fd = fd;
	return ERR_OK;
}

static enum err prepare(struct spool *s, uint64_t boot, size_t need)
{
	const struct file *last;

	while (s->counts.bytes + need > s->bytes_max || s->file_count >= FILES_MAX) {
		enum err e = drop_oldest(s);

		if (e != ERR_OK)
			return e;
	}
	if (s->fd >= 0) {
		last = &s->files[s->file_count - 1];
		if (last->bytes < SPOOL_FILE_BYTES && (last->records == 0 || last->boot == boot))
			return ERR_OK;
		seal(s);
	}
	return open_next(s);
}

/* Nothing of it may stay: it is taken from the ring again. */
static void undo_append(struct spool *s)
{
	int error = errno;

	if (ftruncate(s->fd, (off_t)s->files[s->file_count - 1].bytes) != 0)
		seal(s); /* its torn end is cut off when it is read */
	if (error == ENOSPC || error == EDQUOT)
		(void)!drop_oldest(s);
	errno = error;
}

enum err spool_append(struct spool *s, const struct spool_frame *frames, size_t count)
{
	size_t need = 0, at = 0;
	struct file *last;
	uint8_t *bytes;
	enum err e;

	for (size_t i = 0; i < count; i++)
		need += spool_frame_size(&frames[i]);
	if (need == 0)
		return ERR_OK;
	e = prepare(s, frames[0].boot, need);
	if (e != ERR_OK)
		return e;
	bytes = alloc_zeroed(need);
	if (bytes == NULL)
		return ERR_NO_MEMORY;
	for (size_t i = 0; i < count; i++) {
		spool_frame_put(&frames[i], bytes + at);
		at += spool_frame_size(&frames[i]);
	}
	if (!write_all(s->fd, bytes, need)) {
		undo_append(s);
		e = ERR_SYSTEM;
	}
	alloc_free(bytes);
	if (e != ERR_OK)
		return e;
	last = &s->files[s->file_count - 1];
	for (size_t i = 0; i < count; i++)
		count_line(last, &frames[i]);
	last->bytes += need;
	s->counts.bytes += need;
	s->counts.records += count;
	s->counts.spooled += count;
	return ERR_OK;
}

/* ---- batches ---- */

bool spool_has_batch(const struct spool *s, uint64_t settle_ms)
{
	uint64_t now_ms = clock_wall_ms();

	if (s->file_count == 0 || s->files[0].records == 0)
		return false;
	/* A clock that was set back must not hold them. */
	return s->file_count > 1 || s->fd < 0 || s->files[0].bytes >= SPOOL_FILE_BYTES || now_ms < s->files[0].since_ms ||
	       now_ms - s->files[0].since_ms >= settle_ms;
}

/* Lines of the first batch, behind one another; *out_end is where the next one starts. */
static enum err gather(const uint8_t *bytes, size_t len, struct spool_batch *out_batch, size_t *out_end)
{
	struct spool_batch b = { .lines = alloc_zeroed(len + 1) };
	struct spool_frame frame;
	size_t at = 0;

	if (b.lines == NULL)
		return ERR_NO_MEMORY;
	while (at < len && spool_frame_take(bytes + at, len - at, &frame) == PARSED_OK) {
		at += spool_frame_size(&frame);
		if (frame.kind == SPOOL_FRAME_CUT && b.count > 0)
			break;
		if (frame.kind == SPOOL_FRAME_CUT)
			continue;
		if (b.count == 0) {
			b.boot = frame.boot;
			b.sequence = frame.sequence;
		}
		memcpy(b.lines + b.len, frame.line.at, frame.line.len);
		b.len += frame.line.len;
		b.count++;
	}
	*out_batch = b;
	*out_end = at;
	return ERR_OK;
}

/* A file that is not what was written, while we run: what it had is lost. */
static void lose_first(struct spool *s)
{
	s->counts.dropped += s->files[0].records;
	set_aside(s, s->files[0].number);
	forget_file(s, 0);
}

/* Read the first file as it must be; anything else is set aside. NOT_FOUND: try the next one. */
static enum err read_first(struct spool *s, uint8_t **out_bytes, size_t *out_len)
{
	struct file seen = { 0 };
	uint8_t *bytes = NULL;
	size_t len = 0, good = 0;
	enum err e = read_file(s, s->files[0].number, &bytes, &len);

	if (e == ERR_NO_MEMORY || e == ERR_SYSTEM)
		return e;
	if (e == ERR_OK && len >= s->files[0].bytes)
		len = s->files[0].bytes; /* behind it, only what undo_append could not take back */
	if (e != ERR_OK || survey(bytes, len, &seen, &good) != PARSED_OK || seen.records != s->files[0].records) {
		alloc_free(bytes);
		lose_first(s);
		return ERR_NOT_FOUND;
	}
	*out_bytes = bytes;
	*out_len = len;
	return ERR_OK;
}

enum err spool_load(struct spool *s, struct spool_batch *out_batch)
{
	uint8_t *bytes = NULL;
	size_t len = 0;
	enum err e = ERR_NOT_FOUND;

	while (e == ERR_NOT_FOUND && s->file_count > 0) {
		if (s->file_count == 1)
			seal(s);
		e = read_first(s, &bytes, &len);
	}
	if (e != ERR_OK)
		return e;
	e = gather(bytes, len, out_batch, &s->loaded_len);
	alloc_free(bytes);
	if (e != ERR_OK)
		return e;
	s->is_loaded = true;
	s->loaded_records = out_batch->count;
	return ERR_OK;
}

void spool_batch_finish(struct spool_batch *b)
{
	alloc_free(b->lines);
	*b = (struct spool_batch){ 0 };
}

enum err spool_take(struct spool *s)
{
	struct file *first = &s->files[0];
	uint8_t *bytes = NULL;
	size_t len = 0;
	enum err e;

	s->is_loaded = false;
	if (s->loaded_len >= first->bytes)
		return remove_file(s, 0);
	e = read_first(s, &bytes, &len);
	if (e == ERR_OK)
		e = replace_file(s, first, bytes + s->loaded_len, len - s->loaded_len);
	if (e == ERR_OK) {
		first->records -= s->loaded_records;
		s->counts.records -= s->loaded_records;
	}
	alloc_free(bytes);
	return e;
}

/* Where the second half of so many lines starts. */
static size_t find_middle(const uint8_t *bytes, size_t len, size_t lines)
{
	struct spool_frame frame;
	size_t at = 0;

	while (lines > 0 && spool_frame_take(bytes + at, len - at, &frame) == PARSED_OK) {
		at += spool_frame_size(&frame);
		lines -= frame.kind == SPOOL_FRAME_LINE;
	}
	return at;
}

enum err spool_split(struct spool *s)
{
	struct spool_frame cut = { .kind = SPOOL_FRAME_CUT, .boot = s->files[0].boot };
	uint8_t *bytes = NULL, *both;
	size_t len = 0, middle;
	enum err e;

	if (s->loaded_records < 2)
		return ERR_LIMIT;
	s->is_loaded = false;
	e = read_first(s, &bytes, &len);
	if (e != ERR_OK)
		return e;
	both = alloc_zeroed(len + SPOOL_FRAME_HEAD);
	if (both == NULL) {
		alloc_free(bytes);
		return ERR_NO_MEMORY;
	}
	middle = find_middle(bytes, len, s->loaded_records / 2);
	memcpy(both, bytes, middle);
	spool_frame_put(&cut, both + middle);
	memcpy(both + middle + SPOOL_FRAME_HEAD, bytes + middle, len - middle);
	e = replace_file(s, &s->files[0], both, len + SPOOL_FRAME_HEAD);
	alloc_free(both);
	alloc_free(bytes);
	return e;
}

void spool_give_up(struct spool *s)
{
	s->counts.dropped += s->loaded_records;
	if (spool_take(s) != ERR_OK)
		log_limited(&s->complaint, LOG_LEVEL_ERROR, "spool_not_changed errno=%d", errno);
}

void spool_count(const struct spool *s, struct spool_counts *out_counts)
{
	*out_counts = s->counts;
	out_counts->oldest_wall_ms = s->file_count == 0 ? 0 : s->files[0].since_ms;
}
