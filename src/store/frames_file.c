/*
 * Looks at the files that inotify names, each second at those that there is one of, and at the whole folder now and then, and tells what
 * differs from the last look. Promises that a file is read again whenever anything about it changed, and that names which are no keys are
 * never opened. Changes that inotify does not tell show in the manifest, upon which the listener has everything listed again.
 */
#include "store/frames_file.h"

#include <dirent.h>
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
#include "base/log.h"
#include "document/envelope.h"
#include "document/lease_doc.h"

#define LOOK_MS 1000
#define LOOK_WHOLE_EVERY 10 /* looks: at all files */
#define GATHER_MS 3        /* events of one change come in bursts */
#define NAMED_MAX 256      /* files that events named; beyond it all are looked at */
#define FILES_MAX 150000
#define EVENTS (IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_CREATE)

enum { FOLDER_TOP, FOLDER_LEASES, FOLDER_RULESETS, FOLDER_COUNT };

/* Which state of a file was told. */
struct stamp {
	uint64_t device, inode, size;
	int64_t mtime_ns, ctime_ns;
};

struct known {
	struct htab_node node;
	struct stamp stamp;
	bool is_seen;
	char key[]; /* also its path below the folder */
};

struct frames_file {
	struct frames_source source;
	struct loop *loop;                  /* borrowed */
	const struct frames_events *events; /* borrowed, static */
	void *arg;                          /* borrowed */
	char *folder;                       /* owned */
	struct folder_notify *notify;       /* borrowed, or owned */
	bool is_notify_ours;
	struct folder_watcher watcher;
	int watches[FOLDER_COUNT];
	struct loop_timer soon, next;
	struct hash_key key;
	struct htab known;                  /* of struct known, owned */
	bool in_snapshot, has_changed;
	bool is_whole_due;                  /* events told of more than files */
	unsigned looks;                     /* since the whole folder was looked at */
	char named[NAMED_MAX][FRAMES_KEY_MAX]; /* by events since the last look */
	size_t named_count;
	char *buffer;                       /* owned: one envelope and a byte */
	struct log_limit complaint;
};

static struct frames_file *of(struct frames_source *source)
{
	return CONTAINER_OF(source, struct frames_file, source);
}

static bool has_key(const struct htab_node *node, const void *key)
{
	return strcmp(CONTAINER_OF(node, const struct known, node)->key, key) == 0;
}

static struct known *find_known(const struct frames_file *f, const char *key)
{
	struct htab_node *node = htab_find(&f->known, hash_bytes(&f->key, key, strlen(key)), has_key, key);

	return node == NULL ? NULL : CONTAINER_OF(node, struct known, node);
}

static struct known *known_for(struct frames_file *f, const char *key)
{
	uint64_t hash = hash_bytes(&f->key, key, strlen(key));
	struct known *known = find_known(f, key);

	if (known != NULL)
		return known;
	if (f->known.count >= FILES_MAX || (known = alloc_zeroed(sizeof(*known) + strlen(key) + 1)) == NULL)
		return NULL;
	memcpy(known->key, key, strlen(key));
	if (htab_insert(&f->known, &known->node, hash) != ERR_OK) {
		alloc_free(known);
		return NULL;
	}
	return known;
}

static void forget(struct frames_file *f, struct known *known)
{
	htab_remove(&f->known, &known->node);
	alloc_free(known);
}

/* Everything is told as if for the first time. */
static void forget_all(struct frames_file *f)
{
	struct htab_node *node, *next;

	HTAB_FOREACH (node, next, &f->known)
		forget(f, CONTAINER_OF(node, struct known, node));
}


static bool read_whole(struct frames_file *f, int fd, size_t *out_len)
{
	size_t len = 0;

	while (len <= ENVELOPE_MAX) {
		ssize_t n = read(fd, f->buffer + len, ENVELOPE_MAX + 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	*out_len = len;
	return true;
}

static struct stamp stamp_of(const struct stat *st)
{
	return (struct stamp){ st->st_dev, st->st_ino, (uint64_t)st->st_size,
			       st->st_mtim.tv_sec * 1000000000LL + st->st_mtim.tv_nsec,
			       st->st_ctim.tv_sec * 1000000000LL + st->st_ctim.tv_nsec };
}

/* Read a file that is there; false when it is none, or gone meanwhile. */
static bool read_file(struct frames_file *f, int folder, const char *key, struct stamp *out_stamp, size_t *out_len)
{
	struct stat st;
	bool is_read;
	int fd = openat(folder, key, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return false;
	is_read = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && read_whole(f, fd, out_len);
	if (is_read)
		*out_stamp = stamp_of(&st);
	close(fd);
	return is_read;
}

/* Tell a file when it differs from the last look; true when it was told. Of most files the stamp is all that is asked for. */
static bool look_at(struct frames_file *f, int folder, const char *key, bool *out_is_beat)
{
	struct known *known;
	struct stamp now;
	struct stat st;
	size_t len;

	if (fstatat(folder, key, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode) || (known = known_for(f, key)) == NULL)
		return false;
	known->is_seen = true;
	now = stamp_of(&st);
	if (memcmp(&now, &known->stamp, sizeof(now)) == 0 || !read_file(f, folder, key, &known->stamp, &len))
		return false;
	*out_is_beat = strcmp(key, "beat") == 0;
	if (*out_is_beat)
		return true;
	f->has_changed = true;
	f->events->on_put(f->arg, text_of(key), (struct text){ f->buffer, len });
	return true;
}

static bool is_key(char kind, const char *name)
{
	uint8_t digest[32];

	return kind == 'l' ? lease_doc_id_is_valid(text_of(name)) : text_to_bytes_hex(text_of(name), digest, sizeof(digest));
}

static void look_into(struct frames_file *f, int top, const char *folder, char kind)
{
	char key[FRAMES_KEY_MAX];
	int fd = openat(top, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	bool is_beat;

	if (dir == NULL) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(dir)) != NULL) {
		if (is_key(kind, entry->d_name) && snprintf(key, sizeof(key), "%c/%s", kind, entry->d_name) < (int)sizeof(key))
			look_at(f, top, key, &is_beat);
	}
	closedir(dir);
}

static void tell_gone(struct frames_file *f, struct known *known)
{
	f->has_changed = true;
	f->events->on_del(f->arg, text_of(known->key));
	forget(f, known);
}

/* A folder that was replaced gives another watch: then nothing that is known of its files holds. */
static void watch_folders(struct frames_file *f)
{
	static const char *const names[] = { "", "/l", "/r" };
	char path[4096];

	for (unsigned i = 0; i < FOLDER_COUNT; i++) {
		int before = f->watches[i];

		snprintf(path, sizeof(path), "%s%s", f->folder, names[i]);
		f->watches[i] = folder_notify_add(f->notify, &f->watcher, path, EVENTS | IN_ONLYDIR);
		f->is_whole_due = f->is_whole_due || f->watches[i] != before;
		if (before >= 0 && before != f->watches[i])
			folder_notify_remove(f->notify, before);
	}
}

static void name_file(struct frames_file *f, char kind, const char *name)
{
	char *key = f->named[f->named_count];

	if (f->named_count == NAMED_MAX)
		f->is_whole_due = true;
	else if (snprintf(key, FRAMES_KEY_MAX, "%c/%s", kind, name) < FRAMES_KEY_MAX && is_key(kind, name) &&
		 (f->named_count == 0 || strcmp(f->named[f->named_count - 1], key) != 0))
		f->named_count++;
}

static void start_timer(struct frames_file *f, struct loop_timer *timer, uint64_t after_ms)
{
	if (loop_timer_start(timer, after_ms) != ERR_OK)
		log_limited(&f->complaint, LOG_LEVEL_ERROR, "timer_not_started");
}

static void on_event(void *arg, const struct inotify_event *event)
{
	struct frames_file *f = arg;
	const char *name = event->len > 0 ? event->name : "";

	if (!f->soon.started)
		start_timer(f, &f->soon, GATHER_MS);
	if (event->len > 0 && event->wd == f->watches[FOLDER_LEASES])
		name_file(f, 'l', name);
	else if (event->len > 0 && event->wd == f->watches[FOLDER_RULESETS])
		name_file(f, 'r', name);
	else if (event->wd != f->watches[FOLDER_TOP] || event->len == 0 || strcmp(name, "l") == 0 || strcmp(name, "r") == 0)
		f->is_whole_due = true;
}

static void look_at_named(struct frames_file *f, int top)
{
	bool is_beat;

	for (size_t i = 0; i < f->named_count; i++) {
		const char *key = f->named[i];
		struct known *known = find_known(f, key);

		if (known != NULL)
			known->is_seen = false;
		look_at(f, top, key, &is_beat);
		if (known != NULL && !known->is_seen)
			tell_gone(f, known);
	}
}

static void look_at_all(struct frames_file *f, int top)
{
	struct htab_node *node, *next;

	for (node = htab_next(&f->known, NULL); node != NULL; node = htab_next(&f->known, node)) {
		struct known *known = CONTAINER_OF(node, struct known, node);

		known->is_seen = strchr(known->key, '/') == NULL;
	}
	look_into(f, top, "r", 'r');
	look_into(f, top, "l", 'l');
	for (node = htab_next(&f->known, NULL); node != NULL; node = next) {
		struct known *known = CONTAINER_OF(node, struct known, node);

		next = htab_next(&f->known, node);
		if (!known->is_seen)
			tell_gone(f, known);
	}
	f->looks = 0;
}

/*
 * The beat first, then the manifest, the leases last, and what events told until then: a writer who goes the other way round is never seen
 * ahead of itself.
 */
static void look(struct frames_file *f)
{
	bool is_beat = false, has_beat, is_whole;
	size_t len;
	int top, fd;

	watch_folders(f);
	top = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0) {
		log_limited(&f->complaint, LOG_LEVEL_WARN, "source_not_read path=%s errno=%d", f->folder, errno);
		return;
	}
	f->has_changed = false;
	if (f->in_snapshot)
		f->events->on_snap_begin(f->arg);
	has_beat = look_at(f, top, "beat", &is_beat) && is_beat;
	look_at(f, top, "m", &is_beat);
	look_at(f, top, "keyset", &is_beat);
	/* What came since may be about those three too. */
	folder_notify_drain(f->notify);
	is_whole = f->in_snapshot || f->is_whole_due || f->looks >= LOOK_WHOLE_EVERY;
	f->is_whole_due = false;
	if (is_whole)
		look_at_all(f, top);
	else
		look_at_named(f, top);
	f->named_count = 0;
	if (f->in_snapshot)
		f->events->on_snap_end(f->arg);
	f->in_snapshot = false;
	fd = has_beat ? openat(top, "beat", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	if (fd >= 0 && read_whole(f, fd, &len))
		f->events->on_mark(f->arg, (struct text){ f->buffer, len });
	if (fd >= 0)
		close(fd);
	close(top);
	if (f->has_changed || has_beat)
		f->events->on_settled(f->arg);
}

static void on_next(void *arg)
{
	struct frames_file *f = arg;

	start_timer(f, &f->next, LOOK_MS);
	f->looks++;
	look(f);
}

static void on_soon(void *arg)
{
	look(arg);
}

static enum err on_start(struct frames_source *source, const struct frames_events *events, void *arg)
{
	struct frames_file *f = of(source);

	f->events = events;
	f->arg = arg;
	on_next(f);
	return f->next.started ? ERR_OK : ERR_SYSTEM;
}

static void on_relist(struct frames_source *source)
{
	struct frames_file *f = of(source);

	forget_all(f);
	f->in_snapshot = true;
	if (!f->soon.started)
		start_timer(f, &f->soon, GATHER_MS);
}

static void on_close(struct frames_source *source)
{
	struct frames_file *f = of(source);

	loop_timer_cancel(&f->soon);
	loop_timer_cancel(&f->next);
	if (f->notify != NULL)
		folder_notify_leave(f->notify, &f->watcher);
	if (f->is_notify_ours)
		folder_notify_destroy(f->notify);
	forget_all(f);
	htab_finish(&f->known);
	alloc_free(f->folder);
	alloc_free(f->buffer);
	alloc_free(f);
}

static const struct frames_ops ops = { on_start, on_relist, on_close };

enum err frames_file_open(struct loop *loop, const char *folder, struct folder_notify *notify, struct frames_source **out_source)
{
	struct frames_file *f = alloc_zeroed(sizeof(*f));
	enum err e;

	if (f == NULL)
		return ERR_NO_MEMORY;
	f->source.ops = &ops;
	f->loop = loop;
	f->in_snapshot = true;
	f->complaint = (struct log_limit){ .burst = 3, .interval_ms = 60000 };
	htab_init(&f->known);
	loop_timer_init(&f->soon, loop, on_soon, f);
	loop_timer_init(&f->next, loop, on_next, f);
	for (unsigned i = 0; i < FOLDER_COUNT; i++)
		f->watches[i] = -1;
	f->watcher = (struct folder_watcher){ .on_event = on_event, .arg = f };
	f->notify = notify;
	e = notify == NULL ? folder_notify_create(loop, &f->notify) : ERR_OK;
	f->is_notify_ours = notify == NULL && e == ERR_OK;
	if (e == ERR_OK)
		folder_notify_join(f->notify, &f->watcher);
	f->folder = alloc_copy(folder, strlen(folder));
	f->buffer = alloc_array(ENVELOPE_MAX + 2, 1);
	if (e == ERR_OK && (f->folder == NULL || f->buffer == NULL))
		e = ERR_NO_MEMORY;
	if (e == ERR_OK)
		e = crypto_random(&f->key, sizeof(f->key));
	if (e != ERR_OK) {
		on_close(&f->source);
		return e;
	}
	*out_source = &f->source;
	return ERR_OK;
}
