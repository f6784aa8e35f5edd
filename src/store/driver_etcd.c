/*
 * etcd as a source of frames, in three steps that any doubt begins anew: a token where one is needed; a list of everything at one
 * revision; one watch of three ranges from the revision after it. Promises that nothing the gateway says inside an open stream goes
 * unread. Refuses to know what a document says. Called through frames.h.
 */
#include "store/driver_etcd.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/log.h"
#include "store/etcd_client.h"
#include "store/etcd_line.h"
#include "store/etcd_request.h"

#define ANSWER_MS 10000
#define CREATED_MS 3000  /* until all watches are confirmed */
#define QUIET_MS 4000    /* without an event; a beat comes each second. Below refuse_after, so that one dead member refuses nobody */
#define QUIET_MAX_MS 30000 /* doubling to this while it is quiet everywhere */
#define RELIST_GAP_MS 1000
#define LIST_BYTES_MAX (512u << 20)
#define LIST_KEYS_MAX 200000

enum step { STEP_LOGIN, STEP_LIST, STEP_WATCH };

struct driver_etcd {
	struct frames_source source;
	struct loop *loop;                  /* borrowed */
	const struct frames_events *events; /* borrowed, static */
	void *arg;                          /* borrowed */
	struct etcd_client client;
	struct http_request *request;       /* owned; NULL between two */
	struct loop_timer again, quiet;
	uint64_t quiet_ms;                  /* how long the watch may say nothing */
	uint64_t first_wait_ms;
	struct etcd_range ranges[ETCD_PART_COUNT];

	enum step step;
	bool is_listed;                     /* the watch may go on from `seen` */
	uint64_t seen[ETCD_PART_COUNT];     /* the last revision of each range that was told */
	uint64_t revision_high;             /* highest that the store ever showed */
	enum etcd_part part;                /* being listed */
	uint64_t list_revision;             /* 0 before the first page */
	char after[ETCD_KEY_MAX];           /* last key of the page before */
	size_t after_len, list_keys, list_bytes;
	unsigned page_limit, created_mask;
	struct log_limit complaint;
};

static struct driver_etcd *of(struct frames_source *s)
{
	return CONTAINER_OF(s, struct driver_etcd, source);
}

static void ask_after(struct driver_etcd *d, uint64_t wait_ms)
{
	if (loop_timer_start(&d->again, wait_ms) != ERR_OK)
		log_limited(&d->complaint, LOG_LEVEL_ERROR, "timer_not_started name=again");
}

static void hang_up(struct driver_etcd *d)
{
	http_cancel(d->request);
	d->request = NULL;
	loop_timer_cancel(&d->again);
	loop_timer_cancel(&d->quiet);
}

/* After these the history between is known to be whole: the watch may simply go on. */
static bool can_resume(enum frames_break why)
{
	return why == FRAMES_BREAK_CLOSED || why == FRAMES_BREAK_TIMEOUT || why == FRAMES_BREAK_NO_LEADER ||
	       why == FRAMES_BREAK_DENIED;
}

static void lose(struct driver_etcd *d, enum frames_break why)
{
	hang_up(d);
	if (!can_resume(why))
		d->is_listed = false;
	/* Half a list is none. */
	d->list_revision = 0;
	if (why == FRAMES_BREAK_DENIED)
		etcd_client_drop_token(&d->client);
	log_limited(&d->complaint, LOG_LEVEL_WARN, "store_stream_lost why=%s member=%s", frames_break_word(why),
		    endpoints_url(&d->client.endpoints));
	d->events->on_break(d->arg, why);
}

static void fail(struct driver_etcd *d, enum frames_break why)
{
	lose(d, why);
	ask_after(d, endpoints_fail(&d->client.endpoints));
}

static void tell(struct driver_etcd *d, enum etcd_part part, const struct etcd_pair *pair)
{
	struct text key;

	/* The gateway of some versions shows keys beyond the range that was asked for. */
	if (!etcd_short_key(&d->ranges[part], part, pair->key, &key))
		return;
	if (part == ETCD_PART_BEAT && !pair->is_deleted)
		d->events->on_mark(d->arg, pair->value);
	else if (part != ETCD_PART_BEAT && pair->is_deleted)
		d->events->on_del(d->arg, key);
	else if (part != ETCD_PART_BEAT)
		d->events->on_put(d->arg, key, pair->value);
}

/* --- step: watch --- */

/* Progress lines keep a connection open that tells nothing any more: another member may. */
static void expect_more(struct driver_etcd *d)
{
	if (loop_timer_start(&d->quiet, d->quiet_ms) != ERR_OK)
		log_limited(&d->complaint, LOG_LEVEL_ERROR, "timer_not_started name=quiet");
}

static void on_created(struct driver_etcd *d, const struct etcd_watch *watch)
{
	unsigned part = (unsigned)watch->watch_id - 1;

	/* Asked to begin in what is this store's future, it would say nothing for ever. */
	if (watch->revision < d->seen[part]) {
		fail(d, FRAMES_BREAK_ROLLBACK);
		return;
	}
	d->created_mask |= 1u << part;
	if (d->created_mask == (1u << ETCD_PART_COUNT) - 1) {
		endpoints_succeed(&d->client.endpoints);
		expect_more(d);
	}
}

static void on_events(struct driver_etcd *d, const struct etcd_watch *watch)
{
	enum etcd_part part = (enum etcd_part)(watch->watch_id - 1);

	if ((d->created_mask & 1u << part) == 0) {
		fail(d, FRAMES_BREAK_MALFORMED);
		return;
	}
	if (watch->revision < d->seen[part]) {
		fail(d, FRAMES_BREAK_ROLLBACK);
		return;
	}
	if (watch->revision > d->revision_high)
		d->revision_high = watch->revision;
	/* The store's revision may run ahead of the events that it has sent so far; alone it is progress. */
	if (watch->count == 0)
		d->seen[part] = watch->revision;
	if (watch->count > 0) {
		d->quiet_ms = QUIET_MS;
		expect_more(d);
	}
	for (size_t i = 0; i < watch->count; i++) {
		if (watch->pairs[i].revision > d->seen[part])
			d->seen[part] = watch->pairs[i].revision;
		tell(d, part, &watch->pairs[i]);
	}
	if (watch->count > 0 && d->is_listed)
		d->events->on_settled(d->arg);
}

static void on_watch(struct driver_etcd *d, const struct etcd_watch *watch)
{
	if (watch->kind == ETCD_WATCH_REFUSED) {
		fail(d, etcd_client_break_of(watch->refusal, FRAMES_BREAK_ERROR));
		return;
	}
	if (watch->kind == ETCD_WATCH_CANCELED) {
		fail(d, etcd_client_break_of(watch->refusal, FRAMES_BREAK_CANCELED));
		return;
	}
	if (watch->watch_id == 0 || watch->watch_id > ETCD_PART_COUNT) {
		fail(d, FRAMES_BREAK_MALFORMED);
		return;
	}
	if (watch->kind == ETCD_WATCH_CREATED)
		on_created(d, watch);
	else
		on_events(d, watch);
}

static void on_line(void *arg, struct text line)
{
	struct driver_etcd *d = arg;
	struct etcd_watch watch;
	struct arena arena;
	enum err e;

	if (line.len == 0)
		return;
	arena_init(&arena, 4 * ETCD_LINE_MAX);
	e = etcd_watch_read(line, &arena, &watch);
	if (e == ERR_OK)
		on_watch(d, &watch);
	else
		fail(d, e == ERR_NO_MEMORY ? FRAMES_BREAK_ERROR : FRAMES_BREAK_MALFORMED);
	arena_finish(&arena);
}

static void on_quiet(void *arg)
{
	struct driver_etcd *d = arg;

	d->quiet_ms = 2 * d->quiet_ms < QUIET_MAX_MS ? 2 * d->quiet_ms : QUIET_MAX_MS;
	fail(d, FRAMES_BREAK_TIMEOUT);
}

/* --- step: list --- */

static void begin_list(struct driver_etcd *d)
{
	d->step = STEP_LIST;
	d->part = ETCD_PART_KEYSET;
	d->list_revision = 0;
	d->after_len = d->list_keys = d->list_bytes = 0;
	d->events->on_snap_begin(d->arg);
}

static void end_list(struct driver_etcd *d)
{
	for (unsigned i = 0; i < ETCD_PART_COUNT; i++)
		d->seen[i] = d->list_revision;
	if (d->list_revision < d->revision_high)
		log_line(LOG_LEVEL_ERROR, "store_rolled_back revision=%llu before=%llu",
			 (unsigned long long)d->list_revision, (unsigned long long)d->revision_high);
	d->revision_high = d->list_revision;
	d->is_listed = true;
	d->events->on_snap_end(d->arg);
	/* The listener may have asked to list again. */
	if (!d->is_listed)
		return;
	ask_after(d, 0);
	d->events->on_settled(d->arg);
}

/* False: more than a cell can be, or a key that cannot be the last of a page. */
static bool note_page(struct driver_etcd *d, const struct etcd_page *page)
{
	const struct text *last = page->count > 0 ? &page->pairs[page->count - 1].key : NULL;

	d->list_keys += page->count;
	for (size_t i = 0; i < page->count; i++)
		d->list_bytes += page->pairs[i].value.len;
	if (d->list_keys > LIST_KEYS_MAX || d->list_bytes > LIST_BYTES_MAX)
		return false;
	if (!page->has_more)
		return true;
	if (last->len >= ETCD_KEY_MAX)
		return false;
	memcpy(d->after, last->at, last->len);
	d->after_len = last->len;
	return true;
}

static void on_page(struct driver_etcd *d, const struct etcd_page *page)
{
	if (d->list_revision == 0)
		d->list_revision = page->revision;
	if (!note_page(d, page)) {
		fail(d, FRAMES_BREAK_TOO_LONG);
		return;
	}
	for (size_t i = 0; i < page->count; i++)
		tell(d, d->part, &page->pairs[i]);
	if (!page->has_more) {
		d->part = (enum etcd_part)(d->part + 1);
		d->after_len = 0;
	}
	if (d->part == ETCD_PART_COUNT)
		end_list(d);
	else
		ask_after(d, 0);
}

/* --- what ended --- */

static void on_answer(struct driver_etcd *d, struct text body)
{
	struct etcd_page page;
	struct arena arena;
	enum err e;

	arena_init(&arena, 4 * (size_t)ETCD_PAGE_MAX);
	if (d->step == STEP_LOGIN) {
		e = etcd_client_take_token(&d->client, body);
		if (e == ERR_OK)
			ask_after(d, 0);
	} else {
		e = etcd_page_read(body, &arena, &page);
		if (e == ERR_OK)
			on_page(d, &page);
	}
	arena_finish(&arena);
	if (e != ERR_OK)
		fail(d, e == ERR_NO_MEMORY ? FRAMES_BREAK_ERROR : FRAMES_BREAK_MALFORMED);
}

/* Documents may be large: ask for fewer at a time, down to one. */
static void on_too_long(struct driver_etcd *d)
{
	if (d->step == STEP_LIST && d->page_limit > 1) {
		d->page_limit /= 4;
		d->page_limit = d->page_limit == 0 ? 1 : d->page_limit;
	}
	fail(d, FRAMES_BREAK_TOO_LONG);
}

static void on_done(void *arg, const struct http_outcome *outcome)
{
	struct driver_etcd *d = arg;

	d->request = NULL;
	if (outcome->end == HTTP_END_TOO_LONG) {
		on_too_long(d);
	} else if (outcome->end != HTTP_END_ANSWERED || outcome->status != 200) {
		if (outcome->end == HTTP_END_FAILED)
			log_limited(&d->complaint, LOG_LEVEL_WARN, "store_not_reached member=%s error=\"%s\"",
				    endpoints_url(&d->client.endpoints), outcome->error);
		fail(d, etcd_client_break(outcome));
	} else if (d->step == STEP_WATCH) {
		fail(d, FRAMES_BREAK_CLOSED);
	} else {
		on_answer(d, outcome->body);
	}
}

static const struct http_events answer_events = { NULL, on_done };
static const struct http_events watch_events = { on_line, on_done };

static enum err post(struct driver_etcd *d, const char *path, struct text body)
{
	bool is_watch = d->step == STEP_WATCH;

	return etcd_client_post(&d->client, path, body, is_watch ? 0 : ANSWER_MS, is_watch ? &watch_events : &answer_events, d, &d->request);
}

static enum err ask_page(struct driver_etcd *d)
{
	char body[ETCD_BODY_MAX];
	size_t len = etcd_page_body(&d->ranges[d->part], (struct text){ d->after, d->after_len }, d->list_revision, d->page_limit,
				    body);

	return post(d, "/v3/kv/range", (struct text){ body, len });
}

static enum err ask_watch(struct driver_etcd *d)
{
	char body[ETCD_BODY_MAX];
	size_t len = etcd_watch_body(d->ranges, d->seen, body);
	enum err e;

	d->step = STEP_WATCH;
	d->created_mask = 0;
	e = post(d, "/v3/watch", (struct text){ body, len });
	return e == ERR_OK ? loop_timer_start(&d->quiet, CREATED_MS + ETCD_CLIENT_CONNECT_MS) : e;
}

static void on_again(void *arg)
{
	struct driver_etcd *d = arg;
	bool is_next_page = d->step == STEP_LIST && d->list_revision != 0;
	enum err e;

	if (etcd_client_needs_token(&d->client)) {
		d->step = STEP_LOGIN;
		e = etcd_client_login(&d->client, &answer_events, d, &d->request);
	} else if (d->is_listed) {
		e = ask_watch(d);
	} else {
		if (!is_next_page)
			begin_list(d);
		e = ask_page(d);
	}
	if (e != ERR_OK)
		fail(d, FRAMES_BREAK_ERROR);
}

static enum err on_start(struct frames_source *s, const struct frames_events *events, void *arg)
{
	struct driver_etcd *d = of(s);

	d->events = events;
	d->arg = arg;
	return loop_timer_start(&d->again, d->first_wait_ms);
}

static void on_relist(struct frames_source *s)
{
	struct driver_etcd *d = of(s);

	/* It is at that already. */
	if (!d->is_listed)
		return;
	lose(d, FRAMES_BREAK_RELIST);
	ask_after(d, endpoints_jitter(RELIST_GAP_MS));
}

static void on_close(struct frames_source *s)
{
	struct driver_etcd *d = of(s);

	hang_up(d);
	etcd_client_finish(&d->client);
	alloc_free(d);
}

static const struct frames_ops ops = { on_start, on_relist, on_close };

enum err driver_etcd_open(struct loop *loop, const struct driver_etcd_options *options, struct frames_source **out_source)
{
	struct etcd_client_options client = { options->members, options->user, options->password, options->tls };
	struct driver_etcd *d = alloc_zeroed(sizeof(*d));
	enum err e;

	if (d == NULL)
		return ERR_NO_MEMORY;
	d->source.ops = &ops;
	d->loop = loop;
	d->first_wait_ms = options->first_wait_ms;
	d->quiet_ms = QUIET_MS;
	d->page_limit = ETCD_PAGE_KEYS_MAX;
	d->complaint = (struct log_limit){ .burst = 5, .interval_ms = 60000 };
	loop_timer_init(&d->again, loop, on_again, d);
	loop_timer_init(&d->quiet, loop, on_quiet, d);
	e = etcd_ranges(options->cell, d->ranges);
	if (e == ERR_OK)
		e = etcd_client_init(&d->client, loop, &client);
	if (e != ERR_OK) {
		on_close(&d->source);
		return e;
	}
	*out_source = &d->source;
	return ERR_OK;
}
