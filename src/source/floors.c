/*
 * A text file of one word and its values a line. Promises that a reader finds the old state or the new one, whole, and that keyset and
 * epoch are on the disk before anything is believed because of them.
 */
#include "source/floors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/sink.h"
#include "base/text.h"
#include "document/lease_doc.h"
#include "source/floor_log.h"

#define FILE_NAME "floors"
#define FRESH_NAME "floors.new"
#define HEAD "egressd floors 1"
#define TEXT_MAX 4096

struct floors {
	int folder; /* owned */
	struct floor_log *log; /* owned */
	char cell[LEASE_DOC_ID_MAX + 1];
	char root_ids[KEYSET_DOC_ROOT_MAX][LEASE_DOC_ID_MAX + 1]; /* of state.root */
	struct floors_state state;
	bool is_due, is_unreadable, is_unwritable;
};

static bool read_mark(struct text *line, struct floor_mark *mark)
{
	return text_to_u64(text_take_until(line, ' '), UINT64_MAX, &mark->epoch) &&
	       text_to_u64(text_take_until(line, ' '), UINT64_MAX, &mark->number) &&
	       text_to_bytes_hex(text_take_until(line, ' '), mark->sha256, 32);
}

static bool read_root_key(struct floors *f, struct text *line)
{
	struct keyset_doc_root *root = &f->state.root;
	struct text id = text_take_until(line, ' ');
	size_t at = root->key_count;

	if (at == KEYSET_DOC_ROOT_MAX || !lease_doc_id_is_valid(id) ||
	    !text_to_bytes_hex(text_take_until(line, ' '), root->keys[at].public_key, 32))
		return false;
	memcpy(f->root_ids[at], id.at, id.len);
	f->root_ids[at][id.len] = '\0';
	root->keys[at].id = f->root_ids[at];
	root->key_count++;
	return true;
}

/* Which lines were there: each must be, once. */
enum { SAW_HEAD = 1, SAW_CELL = 2, SAW_ANCHOR = 4, SAW_EPOCH = 8, SAW_KEYSET = 16, SAW_BEAT = 32, SAW_MANIFEST = 64, SAW_THRESHOLD = 128 };
#define SAW_ALL 255u

static bool read_line(struct floors *f, struct text line, unsigned *saw, bool *is_our_cell)
{
	struct floors_state *s = &f->state;
	struct text whole = line, word = text_take_until(&line, ' ');
	unsigned bit;
	bool is_good;

	if (*saw == 0)
		return text_is(whole, HEAD) ? (*saw = SAW_HEAD, true) : false;
	if (text_is(word, "root-key"))
		return read_root_key(f, &line) && line.len == 0;
	if (text_is(word, "cell")) {
		struct text cell = text_take_until(&line, ' ');

		bit = SAW_CELL;
		is_good = lease_doc_id_is_valid(cell);
		*is_our_cell = text_is(cell, f->cell);
	} else if (text_is(word, "anchor")) {
		bit = SAW_ANCHOR;
		is_good = text_to_bytes_hex(text_take_until(&line, ' '), s->anchor, 32);
	} else if (text_is(word, "epoch")) {
		bit = SAW_EPOCH;
		is_good = text_to_u64(text_take_until(&line, ' '), UINT64_MAX, &s->epoch);
	} else if (text_is(word, "threshold")) {
		bit = SAW_THRESHOLD;
		is_good = text_to_u64(text_take_until(&line, ' '), KEYSET_DOC_ROOT_MAX, &s->root.threshold);
	} else {
		struct floor_mark *mark = text_is(word, "keyset") ? &s->keyset : text_is(word, "beat") ? &s->beat : &s->manifest;

		bit = mark == &s->keyset ? SAW_KEYSET : mark == &s->beat ? SAW_BEAT : SAW_MANIFEST;
		is_good = (bit != SAW_MANIFEST || text_is(word, "manifest")) && read_mark(&line, mark);
	}
	is_good = is_good && line.len == 0 && (*saw & bit) == 0;
	*saw |= bit;
	return is_good;
}

static bool read_all(struct floors *f, struct text text)
{
	bool is_our_cell = false;
	unsigned saw = 0;

	while (text.len > 0) {
		const char *end = memchr(text.at, '\n', text.len);
		size_t len;

		if (end == NULL)
			return false;
		len = (size_t)(end - text.at);
		if (!read_line(f, (struct text){ text.at, len }, &saw, &is_our_cell))
			return false;
		text.at += len + 1;
		text.len -= len + 1;
	}
	/* A keyset without a root to follow it up would let the next one be anybody's. */
	if (saw != SAW_ALL || f->state.root.threshold > f->state.root.key_count ||
	    (f->state.root.threshold == 0) != (f->state.keyset.number == 0))
		return false;
	if (!is_our_cell)
		f->state.beat = f->state.manifest = (struct floor_mark){ 0 };
	return true;
}

static bool read_file(struct floors *f)
{
	char bytes[TEXT_MAX + 1];
	ssize_t n;
	int fd = openat(f->folder, FILE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return errno == ENOENT;
	n = read(fd, bytes, sizeof(bytes));
	close(fd);
	if (n <= 0 || n > TEXT_MAX || !read_all(f, (struct text){ bytes, (size_t)n })) {
		f->state = (struct floors_state){ 0 };
		return false;
	}
	return true;
}

static void write_mark(struct sink *s, const char *word, const struct floor_mark *mark)
{
	char hex[65];

	text_from_bytes_hex(mark->sha256, 32, hex);
	sink_format(s, "%s %llu %llu %s\n", word, (unsigned long long)mark->epoch,
		    (unsigned long long)mark->number, hex);
}

static size_t print(const struct floors *f, char *out_text, size_t cap)
{
	const struct floors_state *state = &f->state;
	struct sink s = sink_over(out_text, cap);
	char hex[65];

	text_from_bytes_hex(state->anchor, 32, hex);
	sink_format(&s, HEAD "\ncell %s\nanchor %s\nepoch %llu\nthreshold %llu\n", f->cell, hex, (unsigned long long)state->epoch,
		    (unsigned long long)state->root.threshold);
	for (size_t i = 0; i < state->root.key_count; i++) {
		text_from_bytes_hex(state->root.keys[i].public_key, 32, hex);
		sink_format(&s, "root-key %s %s\n", state->root.keys[i].id, hex);
	}
	write_mark(&s, "keyset", &state->keyset);
	write_mark(&s, "beat", &state->beat);
	write_mark(&s, "manifest", &state->manifest);
	return sink_ok(&s) ? s.len : 0;
}

/* Write beside, rename; flush both when it must survive a power cut. */
static enum err save(struct floors *f, bool must_last)
{
	char text[TEXT_MAX];
	size_t len = print(f, text, sizeof(text));
	bool is_written;
	int fd;

	f->is_unwritable = true;
	if (f->is_unreadable || len == 0)
		return ERR_SYSTEM;
	unlinkat(f->folder, FRESH_NAME, 0); /* left by one who died, or no file at all */
	fd = openat(f->folder, FRESH_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return ERR_SYSTEM;
	is_written = write(fd, text, len) == (ssize_t)len && (!must_last || fsync(fd) == 0);
	if (close(fd) != 0 || !is_written || renameat(f->folder, FRESH_NAME, f->folder, FILE_NAME) != 0 ||
	    (must_last && fsync(f->folder) != 0))
		return ERR_SYSTEM;
	f->is_unwritable = false;
	f->is_due = false;
	return ERR_OK;
}

enum err floors_open(const char *folder, const char *cell, struct floors **out_floors)
{
	struct floors *f = alloc_zeroed(sizeof(*f));
	enum err e;

	if (f == NULL)
		return ERR_NO_MEMORY;
	snprintf(f->cell, sizeof(f->cell), "%s", cell);
	f->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->folder < 0) {
		floors_close(f);
		return ERR_SYSTEM;
	}
	e = floor_log_open(f->folder, cell, &f->log);
	if (e != ERR_OK) {
		floors_close(f);
		return e;
	}
	f->is_unreadable = !read_file(f);
	if (floor_mark_is_above(floor_log_manifest(f->log), &f->state.manifest))
		f->state.manifest = *floor_log_manifest(f->log);
	f->is_due = true;
	floors_flush(f);
	*out_floors = f;
	return ERR_OK;
}

void floors_close(struct floors *f)
{
	if (f == NULL)
		return;
	if (f->folder >= 0) {
		if (f->log != NULL)
			floors_flush(f);
		floor_log_close(f->log);
		close(f->folder);
	}
	alloc_free(f);
}

const struct floors_state *floors_state(const struct floors *f)
{
	return &f->state;
}

bool floors_is_broken(const struct floors *f)
{
	return f->is_unreadable || f->is_unwritable || floor_log_is_broken(f->log);
}

enum err floors_take_keyset(struct floors *f, const uint8_t anchor[32], const struct keyset_doc_root *root,
			    const struct floor_mark *keyset, uint64_t epoch)
{
	struct floors *before = alloc_copy(f, sizeof(*f));
	enum err e;

	if (before == NULL)
		return ERR_NO_MEMORY;
	memcpy(f->state.anchor, anchor, 32);
	f->state.root = *root;
	for (size_t i = 0; i < root->key_count; i++) {
		snprintf(f->root_ids[i], sizeof(f->root_ids[i]), "%s", root->keys[i].id);
		f->state.root.keys[i].id = f->root_ids[i];
	}
	f->state.keyset = *keyset;
	if (epoch > f->state.epoch)
		f->state.epoch = epoch;
	e = save(f, true);
	if (e != ERR_OK) {
		*f = *before;
		f->is_unwritable = true;
	}
	alloc_free(before);
	return e;
}

enum err floors_take_epoch(struct floors *f, uint64_t epoch)
{
	uint64_t before = f->state.epoch;
	enum err e;

	if (epoch <= before)
		return ERR_OK;
	f->state.epoch = epoch;
	e = save(f, true);
	if (e != ERR_OK)
		f->state.epoch = before;
	return e;
}

void floors_take_beat(struct floors *f, const struct floor_mark *beat)
{
	f->state.beat = *beat;
	f->is_due = true;
}

void floors_take_manifest(struct floors *f, const struct floor_mark *manifest)
{
	f->state.manifest = *manifest;
	f->is_due = true;
	floor_log_take_manifest(f->log, manifest);
}

const struct floor_mark *floors_lease(const struct floors *f, const char *id)
{
	return floor_log_lease(f->log, id);
}

enum err floors_take_lease(struct floors *f, const char *id, const struct floor_mark *mark, uint64_t exp_ms, uint64_t said_ms)
{
	return floor_log_take_lease(f->log, id, mark, exp_ms, said_ms);
}

void floors_flush(struct floors *f)
{
	/* An unwritable disk is tried again, so that it is noticed when it can be written. */
	if ((f->is_due || f->is_unwritable) && save(f, false) != ERR_OK)
		f->is_due = true;
	floor_log_flush(f->log);
}
