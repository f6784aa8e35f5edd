/*
 * The file source: a policy root watched by inotify and stat'ed as a whole each second. Promises that a beat is issued only
 * after every file was looked at again, that a file in the middle of being written or renamed is not acted upon, and that
 * absence or a fault counts once it held 30 ms. Between beats only the leases that inotify named are looked at, and only what
 * differs is offered. Called through driver.h.
 */
#include "source/driver.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/hash.h"
#include "base/log.h"
#include "compiler/root.h"
#include "document/lease_doc.h"

#define BEAT_MS 1000
#define HOLD_MS 30         /* absence or a fault must last so long */
#define GATHER_MS 3        /* events of one change come in bursts */
#define WRITING_MAX 64     /* files being written that are known by name; more are not waited for */
#define WRITING_MS 500     /* a writer who rests longer is not waited for */
#define WRITING_ALL_MS 3000 /* nor one who takes longer in all */
#define SLICE_FILES 500    /* looked at before others have their turn: about a millisecond */
#define NAMES_MAX 32       /* leases that are looked at alone; when more are named, everything is */
#define NAME_LEN 256
#define SAID_MAX 256       /* faults that are remembered as logged; beyond it they are only shown on request */
#define NAME_EVENTS (IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF)
#define EVENTS (NAME_EVENTS | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB)

/* Folders that are watched; by path, so that a replaced one is seen. */
enum { FOLDER_ABOVE, FOLDER_ROOT, FOLDER_LEASES, FOLDER_PRESETS, FOLDER_CEILING, FOLDER_COUNT };

/* A file that somebody has begun to write and not closed yet. */
struct writing {
	int watch;
	uint64_t name; /* digest of the file's name */
	uint64_t since_ms, last_ms;
};

/* A lease as it was offered. */
struct offered {
	char id[LEASE_DOC_ID_MAX + 1];
	uint8_t segment[LAYOUT_ID_LEN];
	bool is_sound;
};

struct driver_file {
	struct driver driver;
	struct loop *loop; /* borrowed */
	const struct driver_events *events; /* borrowed, static */
	void *arg;                          /* borrowed */
	char *root_path, *ceiling_path;     /* owned; ceiling NULL: in the root */
	char *folders[FOLDER_COUNT];        /* owned */
	int watches[FOLDER_COUNT];          /* -1: that folder is not there */
	struct root *root;                  /* owned */
	uint32_t root_flags;

	int notify;                         /* owned */
	struct loop_watch readable;
	struct loop_timer beat, soon, hold; /* soon: events gathered; hold: a loss must last */
	struct loop_timer slice;            /* started while everything is looked at */
	uint64_t pass_begun_ns;
	bool is_listed;                     /* the pass waits only for some writer */
	struct writing writing[WRITING_MAX];
	size_t writing_count;
	char names[NAMES_MAX][NAME_LEN]; /* in leases/: to be looked at */
	size_t name_count;
	bool needs_whole;                /* more than these */
	bool is_whole_first;             /* what leases hang on may be another: one that was named waits until everything was looked at */

	struct offered *offered;         /* owned: what was taken last, by id */
	size_t offered_count;
	uint64_t receipt;                /* for that; 0: it must be complete next time */
	uint64_t said[SAID_MAX];                  /* digests of the present faults, which the log has */
	size_t said_count;
	bool has_offered, is_offer_due;
	bool is_hold_over;                        /* a loss has lasted, and only some writer was waited for since */
	struct log_limit complaint;
};

static struct driver_file *of(struct driver *d)
{
	return CONTAINER_OF(d, struct driver_file, driver);
}

static char *join(const char *folder, const char *name)
{
	size_t folder_len = strlen(folder), name_len = strlen(name);
	char *path = alloc_zeroed(folder_len + name_len + 2);

	if (path == NULL)
		return NULL;
	memcpy(path, folder, folder_len);
	path[folder_len] = '/';
	memcpy(path + folder_len + 1, name, name_len);
	return path;
}

static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (slash == NULL)
		return alloc_copy(".", 1);
	return slash == path ? alloc_copy("/", 1) : alloc_copy(path, (size_t)(slash - path));
}

static void on_close(struct driver *driver)
{
	struct driver_file *d = of(driver);

	loop_watch_stop(&d->readable);
	loop_timer_cancel(&d->beat);
	loop_timer_cancel(&d->soon);
	loop_timer_cancel(&d->hold);
	loop_timer_cancel(&d->slice);
	if (d->notify >= 0)
		close(d->notify);
	for (unsigned i = 0; i < FOLDER_COUNT; i++)
		alloc_free(d->folders[i]);
	alloc_free(d->offered);
	root_close(d->root);
	alloc_free(d->root_path);
	alloc_free(d->ceiling_path);
	alloc_free(d);
}

/* Watch every folder by its path again: the same folder gives the same watch, a replaced one another. */
static void watch_folders(struct driver_file *d)
{
	for (unsigned i = 0; i < FOLDER_COUNT; i++) {
		uint32_t events = i == FOLDER_ABOVE ? NAME_EVENTS : EVENTS;
		int watch = d->folders[i] == NULL ?
				    -1 :
				    inotify_add_watch(d->notify, d->folders[i], events | IN_ONLYDIR);
		int before = d->watches[i];

		d->watches[i] = watch;
		if (before < 0 || before == watch)
			continue;
		for (unsigned k = 0; k < FOLDER_COUNT; k++) {
			if (d->watches[k] == before)
				before = -1;
		}
		if (before >= 0)
			inotify_rm_watch(d->notify, before);
	}
}

/* What stands in the root now against what was offered, id by id; both are sorted. */
struct comparison {
	struct offered *now;          /* owned: what will have been offered; NULL: the same leases, some of them other */
	struct holding_lease *others; /* owned: new, other or gone; borrowing from the root and from what was offered */
	size_t now_count, other_count;
	bool has_loss;                /* a lease is gone or faulty that was sound */
};

static void comparison_finish(struct comparison *c)
{
	alloc_free(c->now);
	alloc_free(c->others);
}

static struct offered offered_of(const struct root_lease *lease)
{
	struct offered o = { .is_sound = !lease->is_quarantined };

	snprintf(o.id, sizeof(o.id), "%s", lease->id);
	memcpy(o.segment, lease->segment->id, LAYOUT_ID_LEN);
	return o;
}

/* One id: `was` or `is` may be NULL. */
static void compare_one(struct comparison *c, const struct offered *was, const struct root_lease *is)
{
	bool is_other = was == NULL || is == NULL || memcmp(was->segment, is->segment->id, LAYOUT_ID_LEN) != 0;

	if (was != NULL && was->is_sound && (is == NULL || is->is_quarantined))
		c->has_loss = true;
	if (is_other)
		c->others[c->other_count++] = is != NULL ? (struct holding_lease){ is->id, is->segment } :
							   (struct holding_lease){ was->id, NULL };
	if (is != NULL)
		c->now[c->now_count++] = is_other ? offered_of(is) : *was;
}

/* With the first `was_count` of what was offered: all or none. Finish it also on failure. */
static enum err compare(const struct driver_file *d, size_t was_count, struct comparison *out)
{
	size_t count = root_lease_count(d->root), was_at = 0, is_at = 0;

	*out = (struct comparison){ .now = alloc_array(count + 1, sizeof(*out->now)),
				    .others = alloc_array(count + was_count + 1, sizeof(*out->others)) };
	if (out->now == NULL || out->others == NULL)
		return ERR_NO_MEMORY;
	while (was_at < was_count || is_at < count) {
		const struct offered *was = was_at < was_count ? &d->offered[was_at] : NULL;
		const struct root_lease *is = root_lease_at(d->root, is_at);
		int order = was == NULL ? 1 : is == NULL ? -1 : strcmp(was->id, is->id);

		compare_one(out, order <= 0 ? was : NULL, order >= 0 ? is : NULL);
		was_at += order <= 0;
		is_at += order >= 0;
	}
	return ERR_OK;
}

/* Only with those whose segments may be others: there is nobody else. */
static enum err compare_some(const struct driver_file *d, const size_t *numbers, size_t count, struct comparison *out)
{
	*out = (struct comparison){ .others = alloc_array(count + 1, sizeof(*out->others)) };
	if (out->others == NULL)
		return ERR_NO_MEMORY;
	for (size_t i = 0; i < count; i++) {
		const struct offered *was = &d->offered[numbers[i]];
		const struct root_lease *is = root_lease_at(d->root, numbers[i]);

		if (was->is_sound && is->is_quarantined)
			out->has_loss = true;
		if (memcmp(was->segment, is->segment->id, LAYOUT_ID_LEN) != 0)
			out->others[out->other_count++] = (struct holding_lease){ is->id, is->segment };
	}
	return ERR_OK;
}

/* What was offered last stands in the order of the root's leases, as long as it says which of them are others. */
static enum err compare_due(const struct driver_file *d, struct comparison *out)
{
	const size_t *numbers;
	size_t count;

	if (d->receipt != 0 && root_others(d->root, &numbers, &count))
		return compare_some(d, numbers, count, out);
	return compare(d, d->offered_count, out);
}

static void note_offered(struct driver_file *d, struct comparison *c)
{
	const size_t *numbers;
	size_t count = 0;

	if (c->now != NULL) {
		alloc_free(d->offered);
		d->offered = c->now;
		d->offered_count = c->now_count;
		c->now = NULL;
	} else if (root_others(d->root, &numbers, &count)) {
		for (size_t i = 0; i < count; i++)
			d->offered[numbers[i]] = offered_of(root_lease_at(d->root, numbers[i]));
	}
	root_note_taken(d->root);
}

static uint64_t digest_of(const char *text)
{
	static const struct hash_key key = { 0, 0 };

	return hash_bytes(&key, text, strlen(text));
}

/* What is wrong now, and what of it was in the log before. */
struct saying {
	const struct driver_file *driver;
	uint64_t said[SAID_MAX];
	size_t count;
};

static void say_fault(void *arg, const struct fault *fault)
{
	struct saying *s = arg;
	char text[FAULT_TEXT_MAX + 256];
	uint64_t digest;

	if (s->count == SAID_MAX)
		return;
	fault_print(fault, text, sizeof(text));
	digest = s->said[s->count++] = digest_of(text);
	for (size_t i = 0; i < s->driver->said_count; i++) {
		if (s->driver->said[i] == digest)
			return;
	}
	log_line(fault->severity == FAULT_ERROR ? LOG_LEVEL_ERROR : LOG_LEVEL_WARN, "policy_fault %s", text);
}

/* Log the faults that were not there before. */
static void say_faults(struct driver_file *d)
{
	struct saying s = { .driver = d };

	root_visit_faults(d->root, say_fault, &s);
	memcpy(d->said, s.said, s.count * sizeof(s.said[0]));
	d->said_count = s.count;
}

static enum err offer_once(struct driver_file *d, struct comparison *c)
{
	size_t ruleset_count = root_ruleset_count(d->root);
	const struct emitted **rulesets = alloc_array(ruleset_count + 1, sizeof(*rulesets));
	struct holding holding = { .base = d->receipt, .ruleset_count = ruleset_count, .rulesets = rulesets, .ceiling = root_ceiling(d->root),
				   .root_flags = d->root_flags };
	enum err e = rulesets == NULL ? ERR_NO_MEMORY : ERR_OK;

	/* All of it, when nobody knows what was taken last. */
	if (e == ERR_OK && d->receipt == 0) {
		comparison_finish(c);
		e = compare(d, 0, c);
	}
	for (size_t i = 0; i < ruleset_count && e == ERR_OK; i++)
		rulesets[i] = root_ruleset_at(d->root, i);
	holding.leases = c->others;
	holding.lease_count = c->other_count;
	if (e == ERR_OK)
		e = d->events->on_holding(d->arg, &holding, &d->receipt);
	if (e != ERR_OK)
		d->receipt = 0;
	alloc_free(rulesets);
	return e;
}

static void offer(struct driver_file *d, struct comparison *c)
{
	enum err e = offer_once(d, c);

	if (e == ERR_NOT_FOUND)
		e = offer_once(d, c);
	if (e == ERR_OK) {
		note_offered(d, c);
		d->has_offered = true;
	}
	d->is_offer_due = e != ERR_OK;
	if (e != ERR_OK)
		log_limited(&d->complaint, LOG_LEVEL_ERROR, "policy_not_taken error=\"%s\"",
			    err_text(e));
}

/* Is some file being written right now? Its half is not looked at, for a while. */
static bool is_writing(struct driver_file *d, uint64_t now_ms)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->writing_count; i++) {
		const struct writing *w = &d->writing[i];

		if (now_ms - w->last_ms < WRITING_MS && now_ms - w->since_ms < WRITING_ALL_MS)
			d->writing[kept++] = *w;
	}
	d->writing_count = kept;
	return kept > 0;
}

static void start_timer(struct driver_file *d, struct loop_timer *timer, uint64_t after_ms)
{
	/* Without this timer the next beat looks anyway; without that one no beat comes, and time shuts the door. */
	if (loop_timer_start(timer, after_ms) != ERR_OK)
		log_limited(&d->complaint, LOG_LEVEL_ERROR, "timer_not_started");
}

/* Offer what differs, unless it is a loss that must last first (then `hold` is started); true when nothing is left open. */
static bool act(struct driver_file *d, bool has_held)
{
	struct comparison c = { .now = NULL };
	enum err e = d->is_offer_due ? compare_due(d, &c) : ERR_OK;
	bool waits = e == ERR_OK && c.has_loss && !has_held;

	if (e != ERR_OK)
		log_limited(&d->complaint, LOG_LEVEL_ERROR, "policy_not_taken error=\"%s\"", err_text(e));
	if (waits && !d->hold.started)
		start_timer(d, &d->hold, HOLD_MS);
	if (e == ERR_OK && !waits) {
		loop_timer_cancel(&d->hold);
		say_faults(d);
		if (d->is_offer_due)
			offer(d, &c);
	}
	comparison_finish(&c);
	return !d->is_offer_due;
}

static void say_unconfirmed(struct driver_file *d, enum err e)
{
	log_limited(&d->complaint, LOG_LEVEL_ERROR, "policy_root_not_confirmed error=\"%s\" why=\"%s\"", err_text(e),
		    root_reason(d->root));
}

/* Look at the leases that were named; once more when one is lost and that must last. */
static void look_at_names(struct driver_file *d, bool has_held)
{
	const char *names[NAMES_MAX];
	bool changed;
	enum err e;

	for (size_t i = 0; i < d->name_count; i++)
		names[i] = d->names[i];
	e = root_refresh_some(d->root, names, d->name_count, &changed);
	if (e != ERR_OK) {
		say_unconfirmed(d, e);
		return;
	}
	d->is_offer_due = d->is_offer_due || changed;
	act(d, has_held);
	if (!d->hold.started)
		d->name_count = 0;
}

/* Everything was looked at: act, and beat when nothing is left open. */
static void finish_pass(struct driver_file *d)
{
	bool changed = false, has_held = d->is_hold_over;
	enum err e = root_pass_finish(d->root, &changed);

	d->is_hold_over = false;
	if (e != ERR_OK) {
		say_unconfirmed(d, e);
		return;
	}
	d->is_offer_due = d->is_offer_due || changed || !d->has_offered;
	d->is_whole_first = d->is_whole_first && d->needs_whole;
	if (act(d, has_held))
		d->events->on_beat(d->arg, d->pass_begun_ns);
	d->needs_whole = d->needs_whole || d->hold.started;
}

static void on_slice(void *arg)
{
	struct driver_file *d = arg;
	enum err e = d->is_listed ? ERR_OK : root_pass_go_on(d->root, SLICE_FILES, &d->is_listed);
	bool is_put_off = e == ERR_OK && d->is_listed && is_writing(d, clock_mono_ms());

	if (e != ERR_OK)
		say_unconfirmed(d, e);
	else if (!d->is_listed || is_put_off)
		start_timer(d, &d->slice, is_put_off ? HOLD_MS : 0);
	else
		finish_pass(d);
	/* Events since it began that named no lease, and leases that waited for its end. */
	if (!d->slice.started && (d->needs_whole || d->name_count > 0) && !d->soon.started && !d->hold.started)
		start_timer(d, &d->soon, GATHER_MS);
}

/* Look at everything, a slice at a time. */
static void begin_pass(struct driver_file *d)
{
	enum err e;

	watch_folders(d);
	d->pass_begun_ns = clock_mono_ns();
	d->needs_whole = d->is_listed = false;
	e = root_pass_begin(d->root);
	if (e != ERR_OK)
		say_unconfirmed(d, e);
	else
		on_slice(d);
}

/* Look again and act on what changed. `has_held`: a loss that was seen before and is still there counts now. */
static void look(struct driver_file *d, bool has_held)
{
	if (is_writing(d, clock_mono_ms())) {
		d->is_hold_over = d->is_hold_over || has_held;
		if (!d->soon.started)
			start_timer(d, &d->soon, HOLD_MS);
		return;
	}
	/* One who never stops writing, to whatever file, must not put off for ever what has held. */
	has_held = has_held || d->is_hold_over;
	d->is_hold_over = false;
	/* What everything was looked at for is not found by these. */
	if (d->name_count > 0 && !d->is_whole_first)
		look_at_names(d, has_held && !d->needs_whole);
	if (d->needs_whole || d->is_whole_first)
		d->is_hold_over = has_held;
	if (d->needs_whole && !d->slice.started)
		begin_pass(d);
}

static void on_beat_time(void *arg)
{
	struct driver_file *d = arg;

	start_timer(d, &d->beat, BEAT_MS);
	d->needs_whole = true;
	look(d, false);
}

static void on_soon(void *arg)
{
	look(arg, false);
}

static void on_held(void *arg)
{
	look(arg, true);
}

static void note_writing(struct driver_file *d, const struct inotify_event *event)
{
	uint64_t name = digest_of(event->len > 0 ? event->name : ""), now_ms = clock_mono_ms();
	size_t i = 0;

	while (i < d->writing_count &&
	       (d->writing[i].watch != event->wd || d->writing[i].name != name))
		i++;
	if ((event->mask & IN_MODIFY) != 0) {
		if (i == d->writing_count && i < WRITING_MAX)
			d->writing[d->writing_count++] =
				(struct writing){ event->wd, name, now_ms, now_ms };
		else if (i < d->writing_count)
			d->writing[i].last_ms = now_ms;
	} else if ((event->mask & (IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE)) != 0 &&
		   i < d->writing_count) {
		d->writing[i] = d->writing[--d->writing_count];
	}
}

static bool is_name_of(const char *path, const struct inotify_event *event)
{
	const char *slash = path == NULL ? NULL : strrchr(path, '/');

	return slash != NULL && event->len > 0 && strcmp(event->name, slash + 1) == 0;
}

/* Of the folders above root and ceiling nothing counts but these two: others may be busy there. */
static bool is_foreign(const struct driver_file *d, const struct inotify_event *event)
{
	for (unsigned i = FOLDER_ROOT; i <= FOLDER_PRESETS; i++) {
		if (event->wd == d->watches[i])
			return false;
	}
	if (event->len == 0)
		return false;
	return !(event->wd == d->watches[FOLDER_ABOVE] && is_name_of(d->root_path, event)) &&
	       !(event->wd == d->watches[FOLDER_CEILING] && is_name_of(d->ceiling_path, event));
}

/* Remember what to look at: a lease by its name, or everything. False: nothing, a publisher is at work. */
static bool note_name(struct driver_file *d, const struct inotify_event *event)
{
	bool is_lease = event->wd == d->watches[FOLDER_LEASES] && event->len > 0 && (event->mask & IN_ISDIR) == 0 &&
			strlen(event->name) < NAME_LEN;

	if (is_lease && event->name[0] == '.')
		return false;
	for (size_t i = 0; is_lease && i < d->name_count; i++)
		if (strcmp(d->names[i], event->name) == 0)
			return true;
	if (is_lease && d->name_count < NAMES_MAX) {
		snprintf(d->names[d->name_count++], NAME_LEN, "%s", event->name);
		return true;
	}
	d->needs_whole = true;
	d->is_whole_first = d->is_whole_first || (!is_lease && (event->len == 0 || event->name[0] != '.'));
	return true;
}

/* True when something happened that is worth a look. */
static bool on_event(struct driver_file *d, const struct inotify_event *event)
{
	if ((event->mask & IN_Q_OVERFLOW) != 0) {
		d->writing_count = 0;
		d->needs_whole = true;
		return true;
	}
	if ((event->mask & IN_IGNORED) != 0) {
		for (unsigned i = 0; i < FOLDER_COUNT; i++) {
			if (d->watches[i] == event->wd)
				d->watches[i] = -1;
		}
		d->needs_whole = true;
		return true;
	}
	if (is_foreign(d, event))
		return false;
	note_writing(d, event);
	/* Not before it is closed. */
	if ((event->mask & (uint32_t)~(IN_MODIFY | IN_ISDIR)) == 0)
		return false;
	return note_name(d, event);
}

static void on_notify(void *arg, int fd, unsigned what)
{
	struct driver_file *d = arg;
	_Alignas(struct inotify_event) char bytes[16384];
	bool worth = false;
	ssize_t n = read(fd, bytes, sizeof(bytes));

	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *event = (const void *)(bytes + at);

		worth = on_event(d, event) || worth;
		at += (ssize_t)(sizeof(*event) + event->len);
	}
	if (worth && !d->soon.started)
		start_timer(d, &d->soon, GATHER_MS);
}

static enum err on_start(struct driver *driver, const struct driver_events *events, void *arg)
{
	struct driver_file *d = of(driver);
	enum err e = loop_watch_start(&d->readable);

	if (e != ERR_OK)
		return e;
	d->events = events;
	d->arg = arg;
	on_beat_time(d);
	return d->beat.started ? ERR_OK : ERR_SYSTEM;
}

static bool on_print(struct driver *driver, const char *lease, uint8_t out_print[STICKY_PRINT_LEN])
{
	struct text text;

	/* Not what stands in the file by now: a revocation must not be lifted before its successor is in force. */
	return root_lease_text(of(driver)->root, lease, &text) && crypto_sha256(text.at, text.len, out_print) == ERR_OK;
}

static void on_visit_faults(struct driver *driver, void (*visit)(void *arg, const struct fault *fault),
			    void *arg)
{
	root_visit_faults(of(driver)->root, visit, arg);
}

static const struct driver_ops ops = { on_start, on_close, on_print, on_visit_faults, NULL, NULL };

static enum err fill_paths(struct driver_file *d, const struct driver_file_options *options)
{
	size_t len = strlen(options->root);

	/* "/srv/policy/" is "/srv/policy". */
	while (len > 1 && options->root[len - 1] == '/')
		len--;
	d->root_path = alloc_copy(options->root, len);
	if (d->root_path == NULL)
		return ERR_NO_MEMORY;
	if (options->ceiling != NULL && options->ceiling[0] != '\0') {
		d->ceiling_path = alloc_copy(options->ceiling, strlen(options->ceiling));
		if (d->ceiling_path == NULL)
			return ERR_NO_MEMORY;
		d->folders[FOLDER_CEILING] = folder_of(d->ceiling_path);
		if (d->folders[FOLDER_CEILING] == NULL)
			return ERR_NO_MEMORY;
	}
	d->folders[FOLDER_ABOVE] = folder_of(d->root_path);
	d->folders[FOLDER_ROOT] = alloc_copy(d->root_path, len);
	d->folders[FOLDER_LEASES] = join(d->root_path, "leases");
	d->folders[FOLDER_PRESETS] = join(d->root_path, "presets");
	for (unsigned i = 0; i < FOLDER_CEILING; i++) {
		if (d->folders[i] == NULL)
			return ERR_NO_MEMORY;
	}
	return ERR_OK;
}

enum err driver_file_open(struct loop *loop, const struct driver_file_options *options,
			  struct fault_list *faults, struct driver **out_driver)
{
	struct driver_file *d = alloc_zeroed(sizeof(*d));
	struct root_options root_options = { .trust_check = true,
					     .report_allowed = options->report_allowed };
	enum err e;

	if (d == NULL)
		return ERR_NO_MEMORY;
	d->driver.ops = &ops;
	d->loop = loop;
	d->notify = -1;
	d->root_flags = options->report_allowed ? LAYOUT_ROOT_REPORT_ALLOWED : 0;
	d->complaint = (struct log_limit){ .burst = 3, .interval_ms = 60000 };
	for (unsigned i = 0; i < FOLDER_COUNT; i++)
		d->watches[i] = -1;
	loop_timer_init(&d->beat, loop, on_beat_time, d);
	loop_timer_init(&d->soon, loop, on_soon, d);
	loop_timer_init(&d->hold, loop, on_held, d);
	loop_timer_init(&d->slice, loop, on_slice, d);
	e = fill_paths(d, options);
	if (e != ERR_OK)
		goto out;
	e = ERR_SYSTEM;
	d->notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (d->notify < 0)
		goto out;
	loop_watch_init(&d->readable, loop, d->notify, LOOP_READ, on_notify, d);
	/* Watch first: what changes while the root is compiled is seen. */
	watch_folders(d);
	root_options.ceiling = d->ceiling_path;
	e = root_open(d->root_path, &root_options, faults, &d->root);
	if (e != ERR_OK)
		goto out;
	*out_driver = &d->driver;
	return ERR_OK;
out:
	on_close(&d->driver);
	return e;
}
