/*
 * See serve_reports.h. A batch counts once its key stands behind it on disk: what a crash left of another is cut off at the next start and
 * sent again by who was never told. Knows no HTTP. Called by serve_http.
 */
#include "serve/serve_reports.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/hash.h"
#include "base/htab.h"
#include "base/list.h"
#include "document/json.h"
#include "store/gzip.h"

#define DATA "decisions.ndjson.gz"
#define KEYS "decisions.keys"
#define STATUS_LOG "status.ndjson"
#define STATUS_LOG_BYTES (64u << 20)
#define PROXIES_MAX 20000
#define KEYS_REMEMBERED 100000
#define KEYS_FILE_BYTES (32u << 20)
#define LINE_MAX_LEN 320
#define PLAIN_MAX (4 * GZIP_INPUT_MAX) /* unpacked; our own batches are shorter */

/* A batch that is there. */
struct batch_key {
	struct htab_node node;
	struct list_node age; /* oldest first */
	uint8_t sha256[32];
};

struct serve_reports {
	int folder, data, keys, status; /* owned; -1: not open */
	uint64_t max_bytes, file_bytes;
	uint64_t data_len, old_bytes;   /* of the open file; of the full ones */
	uint64_t keys_len, status_len;
	size_t proxies;
	bool is_broken;
	struct hash_key hash;
	struct htab known;              /* of struct batch_key, owned */
	struct list ages;
};

static bool is_same(const struct htab_node *node, const void *key)
{
	return memcmp(CONTAINER_OF(node, const struct batch_key, node)->sha256, key, 32) == 0;
}

static bool is_known(const struct serve_reports *r, const uint8_t sha256[32])
{
	return htab_find(&r->known, hash_bytes(&r->hash, sha256, 32), is_same, sha256) != NULL;
}

static void forget_oldest(struct serve_reports *r)
{
	struct batch_key *oldest = CONTAINER_OF(list_pop_front(&r->ages), struct batch_key, age);

	htab_remove(&r->known, &oldest->node);
	alloc_free(oldest);
}

/* A key counts for its client alone: nobody uses up another's. */
static enum err digest(const char *key, const char *client, uint8_t out_sha256[32])
{
	char both[LINE_MAX_LEN];
	int len = snprintf(both, sizeof(both), "%s %s", key, client[0] == '\0' ? "-" : client);

	return crypto_sha256(both, (size_t)len, out_sha256);
}

static enum err remember(struct serve_reports *r, const uint8_t sha256[32])
{
	struct batch_key *b = alloc_zeroed(sizeof(*b));
	enum err e = b == NULL ? ERR_NO_MEMORY : ERR_OK;

	if (b != NULL)
		memcpy(b->sha256, sha256, 32);
	if (e == ERR_OK)
		e = htab_insert(&r->known, &b->node, hash_bytes(&r->hash, b->sha256, 32));
	if (e != ERR_OK) {
		alloc_free(b);
		return e;
	}
	list_push_back(&r->ages, &b->age);
	if (r->ages.count > KEYS_REMEMBERED)
		forget_oldest(r);
	return ERR_OK;
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

/* All of it at the end of the file, or the file as it was; or nothing more is taken before the next start, which cuts it off. */
static bool append(struct serve_reports *r, int fd, uint64_t *io_len, const char *bytes, size_t len)
{
	if (r->is_broken)
		return false;
	if (!write_whole(fd, bytes, len)) {
		r->is_broken = ftruncate(fd, (off_t)*io_len) != 0;
		return false;
	}
	*io_len += len;
	return true;
}

static enum err open_append(const struct serve_reports *r, const char *name, int *out_fd, uint64_t *out_len)
{
	struct stat st;
	int fd = openat(r->folder, name, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0640);

	if (fd < 0)
		return ERR_SYSTEM;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return ERR_SYSTEM;
	}
	*out_fd = fd;
	*out_len = (uint64_t)st.st_size;
	return ERR_OK;
}

/* --- decisions --- */

/* "END KEY CLIENT\n"; an end of 0 begins another file. */
static enum err take_key_line(struct serve_reports *r, struct text line, uint64_t *io_end)
{
	const char *blank = memchr(line.at, ' ', line.len), *second;
	size_t end_len = blank == NULL ? line.len : (size_t)(blank - line.at);
	char key[LINE_MAX_LEN], client[LINE_MAX_LEN];
	uint8_t sha256[32];
	uint64_t end;
	enum err e;

	if (blank == NULL || !text_to_u64((struct text){ line.at, end_len }, INT64_MAX, &end))
		return ERR_OK;
	line.at += end_len + 1;
	line.len -= end_len + 1;
	second = memchr(line.at, ' ', line.len);
	if (second == NULL || second == line.at || line.len >= sizeof(key))
		return ERR_OK;
	snprintf(key, sizeof(key), "%.*s", (int)(second - line.at), line.at);
	snprintf(client, sizeof(client), "%.*s", (int)(line.len - (size_t)(second - line.at) - 1), second + 1);
	*io_end = end;
	if (end == 0)
		return ERR_OK;
	e = digest(key, client, sha256);
	return e == ERR_OK ? remember(r, sha256) : e;
}

/* Read the keys; whole lines only, and what is behind the last one goes. */
static enum err read_keys(struct serve_reports *r, uint64_t *out_end)
{
	char *bytes = alloc_array(KEYS_FILE_BYTES + LINE_MAX_LEN, 1);
	uint64_t end = 0, at = 0;
	size_t len = 0;
	ssize_t n;
	enum err e = bytes == NULL ? ERR_NO_MEMORY : ERR_OK;

	while (e == ERR_OK && len < KEYS_FILE_BYTES && (n = pread(r->keys, bytes + len, KEYS_FILE_BYTES - len, (off_t)len)) != 0) {
		if (n < 0)
			e = ERR_SYSTEM;
		else
			len += (size_t)n;
	}
	while (e == ERR_OK && at < len) {
		const char *stop = memchr(bytes + at, '\n', len - at);

		if (stop == NULL)
			break;
		e = take_key_line(r, (struct text){ bytes + at, (size_t)(stop - bytes) - at }, &end);
		at = (size_t)(stop - bytes) + 1;
	}
	if (e == ERR_OK && at < r->keys_len) {
		e = ftruncate(r->keys, (off_t)at) == 0 ? ERR_OK : ERR_SYSTEM;
		r->keys_len = at;
	}
	alloc_free(bytes);
	*out_end = end;
	return e;
}

static bool add_key_line(struct serve_reports *r, uint64_t end, const char *key, const char *client)
{
	char line[LINE_MAX_LEN];
	int len = snprintf(line, sizeof(line), "%" PRIu64 " %s %s\n", end, key, client[0] == '\0' ? "-" : client);

	return append(r, r->keys, &r->keys_len, line, (size_t)len) && fdatasync(r->keys) == 0;
}

static bool is_full_file(const char *name)
{
	return strncmp(name, "decisions.", 10) == 0 && strcmp(name, DATA) != 0 && strcmp(name, KEYS) != 0;
}

/* What the full files hold; operators take them away while we run. */
static void measure(struct serve_reports *r)
{
	int fd = openat(r->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	struct stat st;

	if (dir == NULL) {
		if (fd >= 0)
			close(fd);
		return;
	}
	r->old_bytes = 0;
	while ((entry = readdir(dir)) != NULL)
		if (is_full_file(entry->d_name) && fstatat(r->folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			r->old_bytes += (uint64_t)st.st_size;
	closedir(dir);
}

/* The open file gets a name of its own, and another one begins. */
static enum err turn_page(struct serve_reports *r)
{
	char name[64];
	enum err e;

	snprintf(name, sizeof(name), "decisions.%" PRIu64 ".ndjson.gz", clock_wall_ms());
	if (renameat(r->folder, DATA, r->folder, name) != 0)
		return ERR_SYSTEM;
	close(r->data);
	r->data = -1;
	e = open_append(r, DATA, &r->data, &r->data_len);
	if (e == ERR_OK && r->keys_len > KEYS_FILE_BYTES / 4) {
		/* Keys of one file back stay known in memory; on disk they begin anew. */
		e = ftruncate(r->keys, 0) == 0 ? ERR_OK : ERR_SYSTEM;
		r->keys_len = 0;
	}
	if (e == ERR_OK && !add_key_line(r, 0, "-", "-"))
		e = ERR_SYSTEM;
	measure(r);
	return e;
}

static enum err open_decisions(struct serve_reports *r)
{
	uint64_t end;
	enum err e = open_append(r, KEYS, &r->keys, &r->keys_len);

	if (e == ERR_OK)
		e = read_keys(r, &end);
	if (e == ERR_OK)
		e = open_append(r, DATA, &r->data, &r->data_len);
	if (e != ERR_OK)
		return e;
	measure(r);
	/* A new file: the numbers of the one before mean nothing in it. */
	if (r->data_len == 0 && end > 0)
		return add_key_line(r, 0, "-", "-") ? ERR_OK : ERR_SYSTEM;
	if (r->data_len <= end)
		return ERR_OK;
	if (ftruncate(r->data, (off_t)end) != 0)
		return ERR_SYSTEM;
	r->data_len = end;
	return ERR_OK;
}

static enum err make_room(struct serve_reports *r, size_t len)
{
	enum err e = ERR_OK;

	if (r->is_broken)
		return ERR_SYSTEM;
	if (r->data < 0)
		e = open_append(r, DATA, &r->data, &r->data_len);
	if (e == ERR_OK && r->data_len > 0 && (r->data_len + len > r->file_bytes || r->keys_len > KEYS_FILE_BYTES / 2))
		e = turn_page(r);
	if (e != ERR_OK || r->old_bytes + r->data_len + len <= r->max_bytes)
		return e;
	measure(r);
	return r->old_bytes + r->data_len + len <= r->max_bytes ? ERR_OK : ERR_LIMIT;
}

enum err serve_reports_decisions(struct serve_reports *r, const char *key, const char *client, struct text body)
{
	uint64_t before;
	uint8_t sha256[32];
	enum err e = digest(key, client, sha256);

	if (e != ERR_OK)
		return e;
	if (is_known(r, sha256))
		return ERR_EXISTS;
	/* Anything else would make all that comes behind it in the file unreadable. */
	if (!gzip_is_member(body.at, body.len, PLAIN_MAX))
		return ERR_INVALID;
	e = make_room(r, body.len);
	if (e != ERR_OK)
		return e;
	before = r->data_len;
	if (!append(r, r->data, &r->data_len, body.at, body.len))
		return ERR_SYSTEM;
	if (fdatasync(r->data) != 0 || !add_key_line(r, r->data_len, key, client)) {
		r->is_broken = r->is_broken || ftruncate(r->data, (off_t)before) != 0;
		r->data_len = before;
		return ERR_SYSTEM;
	}
	/* It is on disk: without memory it could at worst be taken twice. */
	e = remember(r, sha256);
	return e == ERR_NO_MEMORY ? ERR_OK : e;
}

/* --- status --- */

static bool is_json(struct text body)
{
	struct json_faults faults;
	struct json *json = NULL;
	struct arena arena;
	enum err e;

	arena_init(&arena, 4 * (size_t)SERVE_REPORTS_STATUS_MAX);
	json_faults_init(&faults, &arena);
	e = json_open_long(body, SERVE_REPORTS_STATUS_MAX, &faults, &json);
	json_close(json);
	arena_finish(&arena);
	return e == ERR_OK;
}

/* The last report, in place of the one before. */
static enum err replace_status(struct serve_reports *r, const char *proxy, struct text body)
{
	char name[96];
	struct stat st;
	bool is_new, is_written;
	int fd;

	snprintf(name, sizeof(name), "status/%s.json", proxy);
	is_new = fstatat(r->folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0;
	if (is_new && r->proxies >= PROXIES_MAX)
		return ERR_LIMIT;
	fd = openat(r->folder, "status/.fresh", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (fd < 0)
		return ERR_SYSTEM;
	is_written = write_whole(fd, body.at, body.len);
	close(fd);
	if (!is_written || renameat(r->folder, "status/.fresh", r->folder, name) != 0)
		return ERR_SYSTEM;
	r->proxies += is_new;
	return ERR_OK;
}

static enum err open_status_log(struct serve_reports *r)
{
	if (r->status >= 0 && r->status_len < STATUS_LOG_BYTES)
		return ERR_OK;
	if (r->status >= 0) {
		close(r->status);
		r->status = -1;
		if (renameat(r->folder, STATUS_LOG, r->folder, "status.1.ndjson") != 0)
			return ERR_SYSTEM;
	}
	return open_append(r, STATUS_LOG, &r->status, &r->status_len);
}

enum err serve_reports_status(struct serve_reports *r, const char *proxy, const char *client, uint64_t wall_ms, struct text body)
{
	size_t room = body.len + LINE_MAX_LEN;
	char *line;
	int head;
	enum err e;

	if (!is_json(body))
		return ERR_INVALID;
	e = replace_status(r, proxy, body);
	if (e == ERR_OK)
		e = open_status_log(r);
	if (e != ERR_OK)
		return e;
	line = alloc_array(room, 1);
	if (line == NULL)
		return ERR_NO_MEMORY;
	head = snprintf(line, LINE_MAX_LEN, "{\"at_ms\":%" PRIu64 ",\"proxy\":\"%s\",\"client\":\"%s\",\"status\":", wall_ms, proxy, client);
	memcpy(line + head, body.at, body.len);
	/* Outside of strings, where alone JSON has them, line ends are blanks. */
	for (size_t i = (size_t)head; i < (size_t)head + body.len; i++)
		if (line[i] == '\n' || line[i] == '\r')
			line[i] = ' ';
	memcpy(line + head + body.len, "}\n", 2);
	e = append(r, r->status, &r->status_len, line, (size_t)head + body.len + 2) ? ERR_OK : ERR_SYSTEM;
	alloc_free(line);
	return e;
}

static enum err count_proxies(struct serve_reports *r)
{
	int fd = openat(r->folder, "status", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (dir == NULL) {
		if (fd >= 0)
			close(fd);
		return ERR_SYSTEM;
	}
	while ((entry = readdir(dir)) != NULL)
		r->proxies += entry->d_name[0] != '.';
	closedir(dir);
	return ERR_OK;
}

enum err serve_reports_open(const struct serve_reports_options *options, struct serve_reports **out_reports)
{
	struct serve_reports *r = alloc_zeroed(sizeof(*r));
	enum err e;

	if (r == NULL)
		return ERR_NO_MEMORY;
	r->data = r->keys = r->status = -1;
	r->max_bytes = options->max_bytes;
	r->file_bytes = options->file_bytes;
	htab_init(&r->known);
	list_init(&r->ages);
	r->folder = open(options->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	e = r->folder < 0 ? ERR_SYSTEM : crypto_random(&r->hash, sizeof(r->hash));
	if (e == ERR_OK && mkdirat(r->folder, "status", 0750) != 0 && errno != EEXIST)
		e = ERR_SYSTEM;
	if (e == ERR_OK)
		e = count_proxies(r);
	if (e == ERR_OK)
		e = open_decisions(r);
	if (e != ERR_OK) {
		serve_reports_close(r);
		return e;
	}
	*out_reports = r;
	return ERR_OK;
}

void serve_reports_close(struct serve_reports *r)
{
	int fds[4];

	if (r == NULL)
		return;
	memcpy(fds, (int[]){ r->folder, r->data, r->keys, r->status }, sizeof(fds));
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	while (r->ages.count > 0)
		forget_oldest(r);
	htab_finish(&r->known);
	alloc_free(r);
}
