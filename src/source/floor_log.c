/*
 * A head, the cell, then a line for each mark; the last one of a lease counts. Written anew, whole, when most lines are of the past.
 * Promises that a file it does not understand is neither believed nor replaced.
 */
#include "source/floor_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/hash.h"
#include "base/htab.h"
#include "base/text.h"
#include "document/lease_doc.h"

#define FILE_NAME "floors.log"
#define FRESH_NAME "floors.log.new"
#define HEAD "egressd floor log 1"
#define LINE_ROOM (LEASE_DOC_ID_MAX + 160)
#define LINES_SPARE 1024
#define FOUND_MAX (2 * FLOOR_LOG_LEASES_MAX + 2 * LINES_SPARE) /* in a file there are also those forgotten since it was written */
#define CHUNK_LEN 65536

struct lease_floor {
	struct htab_node node;
	struct floor_mark mark;
	uint64_t exp_ms; /* the latest end of all that was taken */
	char id[LEASE_DOC_ID_MAX + 1];
};

struct floor_log {
	int folder;              /* borrowed */
	int fd;                  /* owned; at its end; -1: to be written anew */
	char cell[LEASE_DOC_ID_MAX + 1];
	struct hash_key key;
	struct htab leases;      /* of struct lease_floor, owned */
	struct floor_mark manifest;
	size_t lines, lines_max; /* in the file, and how many before it is written anew */
	bool is_unreadable;
};

/* --- what is remembered --- */

static bool has_id(const struct htab_node *node, const void *key)
{
	return strcmp(CONTAINER_OF(node, const struct lease_floor, node)->id, key) == 0;
}

static struct lease_floor *find(const struct floor_log *log, const char *id)
{
	struct htab_node *node = htab_find(&log->leases, hash_bytes(&log->key, id, strlen(id)), has_id, id);

	return node == NULL ? NULL : CONTAINER_OF(node, struct lease_floor, node);
}

static void forget(struct floor_log *log, struct lease_floor *lease)
{
	htab_remove(&log->leases, &lease->node);
	alloc_free(lease);
}

static void forget_ended(struct floor_log *log, uint64_t before_ms)
{
	struct htab_node *node = htab_next(&log->leases, NULL), *next;

	for (; node != NULL; node = next) {
		struct lease_floor *lease = CONTAINER_OF(node, struct lease_floor, node);

		next = htab_next(&log->leases, node);
		if (lease->exp_ms < before_ms)
			forget(log, lease);
	}
}

static enum err remember(struct floor_log *log, const char *id, const struct floor_mark *mark, uint64_t exp_ms, size_t max)
{
	struct lease_floor *lease = find(log, id);

	if (lease == NULL) {
		if (log->leases.count >= max)
			return ERR_LIMIT;
		lease = alloc_zeroed(sizeof(*lease));
		if (lease == NULL)
			return ERR_NO_MEMORY;
		snprintf(lease->id, sizeof(lease->id), "%s", id);
		if (htab_insert(&log->leases, &lease->node, hash_bytes(&log->key, id, strlen(id))) != ERR_OK) {
			alloc_free(lease);
			return ERR_NO_MEMORY;
		}
	}
	lease->mark = *mark;
	if (exp_ms > lease->exp_ms)
		lease->exp_ms = exp_ms;
	return ERR_OK;
}

/* --- reading --- */

static bool read_number(struct text *line, uint64_t *out_value)
{
	return text_to_u64(text_take_until(line, ' '), UINT64_MAX, out_value);
}

static bool read_lease(struct floor_log *log, struct text line)
{
	struct text word = text_take_until(&line, ' ');
	struct floor_mark mark = { 0 };
	char id[LEASE_DOC_ID_MAX + 1];
	uint64_t exp_ms;

	if (!lease_doc_id_is_valid(word) || !read_number(&line, &mark.epoch) || !read_number(&line, &mark.number) ||
	    !read_number(&line, &exp_ms) || !text_to_bytes_hex(text_take_until(&line, ' '), mark.sha256, 32) || line.len > 0)
		return false;
	snprintf(id, sizeof(id), "%.*s", (int)word.len, word.at);
	return remember(log, id, &mark, exp_ms, FOUND_MAX) == ERR_OK;
}

static bool read_manifest(struct floor_log *log, struct text line)
{
	return read_number(&line, &log->manifest.epoch) && read_number(&line, &log->manifest.number) &&
	       text_to_bytes_hex(text_take_until(&line, ' '), log->manifest.sha256, 32) && line.len == 0;
}

/* What a line is depends on how many came before it. */
static bool read_line(struct floor_log *log, struct text line, bool *is_other_cell)
{
	struct text word;

	if (log->lines++ == 0)
		return text_is(line, HEAD);
	word = text_take_until(&line, ' ');
	if (log->lines == 2) {
		*is_other_cell = !text_is(line, log->cell);
		return text_is(word, "cell") && lease_doc_id_is_valid(line);
	}
	return text_is(word, "lease") ? read_lease(log, line) : text_is(word, "manifest") && read_manifest(log, line);
}

/* The lines that are whole in `bytes`; what is left of it stays at its start. */
static bool read_lines(struct floor_log *log, char *bytes, size_t *len, bool *is_other_cell)
{
	char *at = bytes, *end;

	while ((end = memchr(at, '\n', *len - (size_t)(at - bytes))) != NULL) {
		if (!read_line(log, (struct text){ at, (size_t)(end - at) }, is_other_cell))
			return false;
		at = end + 1;
	}
	*len -= (size_t)(at - bytes);
	memmove(bytes, at, *len);
	return *len < LINE_ROOM;
}

static void forget_all(struct floor_log *log)
{
	struct htab_node *node, *next;

	HTAB_FOREACH (node, next, &log->leases)
		forget(log, CONTAINER_OF(node, struct lease_floor, node));
	log->manifest = (struct floor_mark){ 0 };
	log->lines = 0;
}

/* False: not understood. Whatever is not exactly ours and whole leaves log->fd at -1, to be written anew. */
static bool read_file(struct floor_log *log)
{
	int fd = openat(log->folder, FILE_NAME, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	bool is_other_cell = false, is_good;
	char *chunk;
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT;
	chunk = alloc_zeroed(CHUNK_LEN + LINE_ROOM);
	is_good = chunk != NULL;
	while (is_good && (n = read(fd, chunk + len, CHUNK_LEN)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		is_good = n > 0;
		len += n > 0 ? (size_t)n : 0;
		is_good = is_good && read_lines(log, chunk, &len, &is_other_cell);
	}
	alloc_free(chunk);
	is_good = is_good && log->lines >= 2;
	log->lines_max = 2 * log->lines + LINES_SPARE;
	if (is_good && len == 0 && !is_other_cell)
		log->fd = fd;
	else
		close(fd);
	if (!is_good || is_other_cell)
		forget_all(log);
	return is_good;
}

/* --- writing --- */

static size_t print_mark(char *out_line, size_t at, const struct floor_mark *mark, const uint64_t *exp_ms)
{
	char hex[65];
	int len = snprintf(out_line + at, LINE_ROOM - at, "%llu %llu ", (unsigned long long)mark->epoch,
			   (unsigned long long)mark->number);

	at += (size_t)len;
	if (exp_ms != NULL)
		at += (size_t)snprintf(out_line + at, LINE_ROOM - at, "%llu ", (unsigned long long)*exp_ms);
	text_from_bytes_hex(mark->sha256, 32, hex);
	return at + (size_t)snprintf(out_line + at, LINE_ROOM - at, "%s\n", hex);
}

static size_t print_lease(char out_line[LINE_ROOM], const struct lease_floor *lease)
{
	size_t at = (size_t)snprintf(out_line, LINE_ROOM, "lease %s ", lease->id);

	return print_mark(out_line, at, &lease->mark, &lease->exp_ms);
}

static size_t print_manifest(char out_line[LINE_ROOM], const struct floor_mark *mark)
{
	size_t at = (size_t)snprintf(out_line, LINE_ROOM, "manifest ");

	return print_mark(out_line, at, mark, NULL);
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

/* Lines gather in `chunk` until it is full. */
static bool put(int fd, char *chunk, size_t *used, const char *line, size_t len)
{
	if (*used + len > CHUNK_LEN) {
		if (!write_whole(fd, chunk, *used))
			return false;
		*used = 0;
	}
	memcpy(chunk + *used, line, len);
	*used += len;
	return true;
}

static bool write_all(struct floor_log *log, int fd, char *chunk)
{
	const struct htab_node *node;
	char line[LINE_ROOM];
	size_t used = (size_t)snprintf(chunk, CHUNK_LEN, HEAD "\ncell %s\n", log->cell);
	bool is_written = true;

	log->lines = 2;
	if (log->manifest.number != 0) {
		is_written = put(fd, chunk, &used, line, print_manifest(line, &log->manifest));
		log->lines++;
	}
	for (node = htab_next(&log->leases, NULL); node != NULL && is_written; node = htab_next(&log->leases, node)) {
		is_written = put(fd, chunk, &used, line, print_lease(line, CONTAINER_OF(node, const struct lease_floor, node)));
		log->lines++;
	}
	log->lines_max = 2 * log->lines + LINES_SPARE;
	return is_written && write_whole(fd, chunk, used);
}

/* Write beside, rename, and go on at its end. */
static void write_anew(struct floor_log *log)
{
	char *chunk;
	int fd;

	if (log->fd >= 0)
		close(log->fd);
	log->fd = -1;
	if (log->is_unreadable)
		return;
	unlinkat(log->folder, FRESH_NAME, 0); /* left by one who died, or no file at all */
	fd = openat(log->folder, FRESH_NAME, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	chunk = alloc_zeroed(CHUNK_LEN);
	if (chunk != NULL && write_all(log, fd, chunk) && renameat(log->folder, FRESH_NAME, log->folder, FILE_NAME) == 0)
		log->fd = fd;
	else
		close(fd);
	alloc_free(chunk);
}

/* Half a line must not be the beginning of the next one: then everything is written anew, now or with the next flush. */
static void append(struct floor_log *log, const char *line, size_t len, uint64_t said_ms)
{
	if (log->lines >= log->lines_max) {
		forget_ended(log, said_ms);
		write_anew(log);
		return;
	}
	if (log->fd >= 0 && write_whole(log->fd, line, len))
		log->lines++;
	else
		write_anew(log);
}

/* --- for floors --- */

enum err floor_log_open(int folder, const char *cell, struct floor_log **out_log)
{
	struct floor_log *log = alloc_zeroed(sizeof(*log));

	if (log == NULL)
		return ERR_NO_MEMORY;
	log->folder = folder;
	log->fd = -1;
	htab_init(&log->leases);
	snprintf(log->cell, sizeof(log->cell), "%s", cell);
	if (crypto_random(&log->key, sizeof(log->key)) != ERR_OK) {
		floor_log_close(log);
		return ERR_SYSTEM;
	}
	log->is_unreadable = !read_file(log);
	floor_log_flush(log);
	*out_log = log;
	return ERR_OK;
}

void floor_log_close(struct floor_log *log)
{
	if (log == NULL)
		return;
	forget_all(log);
	htab_finish(&log->leases);
	if (log->fd >= 0)
		close(log->fd);
	alloc_free(log);
}

bool floor_log_is_broken(const struct floor_log *log)
{
	return log->fd < 0;
}

const struct floor_mark *floor_log_lease(const struct floor_log *log, const char *id)
{
	const struct lease_floor *lease = find(log, id);

	return lease == NULL ? NULL : &lease->mark;
}

enum err floor_log_take_lease(struct floor_log *log, const char *id, const struct floor_mark *mark, uint64_t exp_ms,
			      uint64_t said_ms)
{
	const struct lease_floor *before = find(log, id);
	char line[LINE_ROOM];
	enum err e;

	/* The same document once more. */
	if (before != NULL && memcmp(&before->mark, mark, sizeof(*mark)) == 0)
		return ERR_OK;
	if (before == NULL && log->leases.count >= FLOOR_LOG_LEASES_MAX)
		forget_ended(log, said_ms);
	e = remember(log, id, mark, exp_ms, FLOOR_LOG_LEASES_MAX);
	if (e == ERR_OK)
		append(log, line, print_lease(line, find(log, id)), said_ms);
	return e;
}

const struct floor_mark *floor_log_manifest(const struct floor_log *log)
{
	return &log->manifest;
}

void floor_log_take_manifest(struct floor_log *log, const struct floor_mark *mark)
{
	char line[LINE_ROOM];

	if (memcmp(&log->manifest, mark, sizeof(*mark)) == 0)
		return;
	log->manifest = *mark;
	append(log, line, print_manifest(line, mark), 0);
}

void floor_log_flush(struct floor_log *log)
{
	if (log->fd < 0)
		write_anew(log);
}
