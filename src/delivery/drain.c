/*
 * Rings to sinks, batch by batch: gather from all lanes in the order of their numbers, spool, write, and only then give the room back: whoever
 * dies in between leaves the batch to its successor, who finds what was done already (positions in the spool, the end of the file).
 */
#include "delivery/drain.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/log.h"
#include "delivery/records_file.h"
#include "delivery/upload.h"

#define POLL_MS 40
#define POLL_IDLE_MS 160
#define BATCH_BYTES 65536
#define BATCH_LINES 256
#define BATCHES_PER_TURN 16 /* then others have a turn */
#define SOURCES_MAX 8       /* a daemon that dies again and again while nothing can be written */

struct lane {
	uint64_t tail;    /* as we left it in the ring */
	uint64_t gathered; /* behind the last line of the batch */
	uint64_t at;      /* behind `line` */
	uint64_t spooled; /* up to here an earlier run spooled it */
	bool has_line;
	struct record_ring_line line; /* the next one */
};

struct source {
	struct list_node node;
	struct record_ring *ring; /* owned */
	uint64_t number;
	bool is_attached;
	unsigned lane_count;
	struct lane *lanes;       /* owned */
};

/* What is on its way from one source. */
struct batch {
	struct source *source; /* borrowed; NULL: none under way */
	size_t count, len;
	bool is_spooled;
	size_t frame_count;
	struct spool_frame frames[BATCH_LINES]; /* for the spool, their lines in `text` */
	char text[BATCH_BYTES];                 /* all lines */
	char fresh[BATCH_BYTES];                /* those that the file has not */
	size_t fresh_len;
};

struct drain {
	struct loop *loop; /* borrowed */
	struct records_file *file; /* owned */
	struct spool *spool;       /* owned; NULL: none */
	struct upload *upload;     /* owned; with the spool */
	struct list sources;       /* of struct source, owned, oldest first */
	struct loop_timer poll;
	uint64_t wait_ms;          /* until the next look, longer while nothing comes */
	struct batch batch;
	uint64_t looked_for;       /* bytes compared with the end of the file so far */
	uint64_t stored, sent, dropped, repeats_lost;
	struct log_limit complaint;
};

#define LOOK_FOR_MAX (512u << 10) /* more than one turn of whoever was here before */

/* ---- sources ---- */

static struct source *source_of(struct list_node *node)
{
	return CONTAINER_OF(node, struct source, node);
}

static void source_destroy(struct source *s)
{
	record_ring_destroy(s->ring);
	alloc_free(s->lanes);
	alloc_free(s);
}

/* With the batch of it that is under way. */
static void remove_source(struct drain *d, struct source *s)
{
	list_remove(&d->sources, &s->node);
	if (d->batch.source != s)
		return;
	d->batch.source = NULL;
	records_file_break_off(d->file);
}

/* Read out, or not ours any more. */
static void release(struct drain *d, struct source *s, bool is_read_out)
{
	remove_source(d, s);
	if (is_read_out) {
		uint64_t repeats = record_ring_repeats(s->ring);

		d->dropped += record_ring_dropped(s->ring);
		d->repeats_lost += repeats;
		log_line(LOG_LEVEL_INFO, "records_read_out boot=%016" PRIx64 " dropped=%" PRIu64 " repeats_lost=%" PRIu64,
			 record_ring_boot(s->ring), record_ring_dropped(s->ring), repeats);
	} else {
		log_line(LOG_LEVEL_WARN, "records_left boot=%016" PRIx64 " why=\"another sidecar reads them\"", record_ring_boot(s->ring));
	}
	source_destroy(s);
}

/* One ring too many is held: what the oldest still has is lost, and counted. */
static void abandon(struct drain *d, struct source *s)
{
	uint64_t lost = record_ring_dropped(s->ring);

	for (unsigned i = 0; i < s->lane_count; i++) {
		uint64_t at = s->lanes[i].tail;

		while (record_ring_look(s->ring, i, &at, &s->lanes[i].line) == RECORD_RING_LINE)
			lost++;
	}
	d->dropped += lost;
	d->repeats_lost += record_ring_repeats(s->ring);
	log_line(LOG_LEVEL_ERROR, "records_lost boot=%016" PRIx64 " count=%" PRIu64 " why=\"too many daemons died before they could be written\"",
		 record_ring_boot(s->ring), lost);
	remove_source(d, s);
	source_destroy(s);
}

static void start_lane(struct drain *d, struct source *s, unsigned i)
{
	struct lane *l = &s->lanes[i];

	l->tail = l->gathered = l->at = record_ring_tail(s->ring, i);
	l->spooled = d->spool == NULL ? 0 : spool_position(d->spool, record_ring_boot(s->ring), i);
	l->has_line = false;
}

/* The next line of the lane, if there is one. */
static bool fill_lane(struct drain *d, struct source *s, unsigned i)
{
	struct lane *l = &s->lanes[i];

	if (l->has_line)
		return true;
	switch (record_ring_look(s->ring, i, &l->at, &l->line)) {
	case RECORD_RING_LINE:
		l->has_line = true;
		return true;
	case RECORD_RING_DAMAGED:
		/* What is gathered already is taken first: then the rest is given up. */
		if (l->gathered != l->tail)
			return false;
		log_limited(&d->complaint, LOG_LEVEL_ERROR, "records_damaged boot=%016" PRIx64 " lane=%u", record_ring_boot(s->ring), i);
		d->dropped++;
		record_ring_skip(s->ring, i);
		start_lane(d, s, i);
		return false;
	case RECORD_RING_EMPTY:
		break;
	}
	return false;
}

/* ---- gathering ---- */

static struct lane *next_lane(struct drain *d, struct source *s, unsigned *out_index)
{
	struct lane *next = NULL;

	for (unsigned i = 0; i < s->lane_count; i++) {
		if (fill_lane(d, s, i) && (next == NULL || s->lanes[i].line.sequence < next->line.sequence)) {
			next = &s->lanes[i];
			*out_index = i;
		}
	}
	return next;
}

static bool is_in_file(struct drain *d, const struct record_ring_line *line)
{
	if (d->looked_for >= LOOK_FOR_MAX)
		return false;
	d->looked_for += line->len;
	if (d->looked_for >= LOOK_FOR_MAX)
		records_file_forget_end(d->file);
	return records_file_ends_with(d->file, line->text, line->len);
}

static void add_line(struct drain *d, struct source *s, unsigned i)
{
	struct batch *b = &d->batch;
	struct lane *l = &s->lanes[i];
	char *text = b->text + b->len;

	memcpy(text, l->line.text, l->line.len);
	b->len += l->line.len;
	if (d->spool != NULL && l->at > l->spooled)
		b->frames[b->frame_count++] = (struct spool_frame){
			.kind = SPOOL_FRAME_LINE,
			.boot = record_ring_boot(s->ring),
			.sequence = l->line.sequence,
			.lane = i,
			.position = l->at,
			.line = { text, l->line.len },
		};
	if (!is_in_file(d, &l->line)) {
		memcpy(b->fresh + b->fresh_len, l->line.text, l->line.len);
		b->fresh_len += l->line.len;
	}
	b->count++;
	l->gathered = l->at;
	l->has_line = false;
}

static bool gather(struct drain *d, struct source *s)
{
	struct batch *b = &d->batch;
	struct lane *next;
	unsigned index = 0;

	b->count = b->len = b->fresh_len = b->frame_count = 0;
	b->is_spooled = false;
	while (b->count < BATCH_LINES && BATCH_BYTES - b->len >= RECORD_JSON_MAX && (next = next_lane(d, s, &index)) != NULL)
		add_line(d, s, index);
	b->source = b->count > 0 ? s : NULL;
	return b->count > 0;
}

/* ---- storing ---- */

static bool spool_batch(struct drain *d)
{
	struct batch *b = &d->batch;
	enum err e;

	if (d->spool == NULL || b->is_spooled)
		return true;
	e = spool_append(d->spool, b->frames, b->frame_count);
	if (e != ERR_OK) {
		log_limited(&d->complaint, LOG_LEVEL_ERROR, "records_not_spooled error=\"%s\"", err_text(e));
		return false;
	}
	b->is_spooled = true;
	return true;
}

/* Everything that is wanted has it. */
static void take_batch(struct drain *d)
{
	struct batch *b = &d->batch;
	struct source *s = b->source;
	bool is_ours = true;

	b->source = NULL;
	d->stored += b->count;
	for (unsigned i = 0; i < s->lane_count; i++) {
		struct lane *l = &s->lanes[i];

		if (l->gathered == l->tail)
			continue;
		is_ours = record_ring_take(s->ring, i, l->tail, l->gathered) && is_ours;
		l->tail = l->gathered;
	}
	if (d->spool == NULL && records_file_is_wanted(d->file))
		d->sent += b->count;
	else if (d->spool == NULL)
		d->dropped += b->count;
	if (!is_ours)
		release(d, s, false);
}

/* False: it must wait. */
static bool store_batch(struct drain *d)
{
	if (!spool_batch(d))
		return false;
	if (records_file_is_wanted(d->file) && !records_file_write(d->file, d->batch.fresh, d->batch.fresh_len))
		return false;
	take_batch(d);
	return true;
}

/* Rings that another sidecar was told to read are no longer ours, nor is what waits of them. */
static void let_go(struct drain *d)
{
	struct list_node *node, *next;

	LIST_FOREACH (node, next, &d->sources) {
		if (!record_ring_may_read(source_of(node)->ring, source_of(node)->number))
			release(d, source_of(node), false);
	}
}

/* Something to store, from the oldest ring that has any. */
static bool gather_any(struct drain *d)
{
	struct list_node *node, *next;

	LIST_FOREACH (node, next, &d->sources) {
		struct source *s = source_of(node);

		if (gather(d, s))
			return true;
		if (!s->is_attached)
			release(d, s, true);
	}
	return false;
}

/* Store up to `batches`; false: nothing is left, or it must wait. */
static bool go_on(struct drain *d, unsigned batches)
{
	let_go(d);
	while (batches-- > 0) {
		if (d->batch.source == NULL && !gather_any(d))
			return false;
		if (!store_batch(d))
			return false;
	}
	return true;
}

static void on_poll(void *arg)
{
	struct drain *d = arg;
	uint64_t before = d->stored;
	bool has_more = go_on(d, BATCHES_PER_TURN);

	if (d->upload != NULL)
		upload_go_on(d->upload);
	d->wait_ms = d->stored != before || d->wait_ms == 0 ? POLL_MS : d->wait_ms < POLL_IDLE_MS ? d->wait_ms * 2 : POLL_IDLE_MS;
	if (loop_timer_start(&d->poll, has_more ? 0 : d->wait_ms) != ERR_OK)
		log_limited(&d->complaint, LOG_LEVEL_ERROR, "timer_not_started name=records");
}

/* ---- from outside ---- */

static enum err open_upload(struct drain *d, const struct drain_options *o)
{
	struct upload_options options = { .urls = o->decisions, .proxy = o->proxy == NULL ? "" : o->proxy, .tls = o->tls };
	enum err e;

	if (o->decisions == NULL || o->decisions[0] == '\0')
		return ERR_OK;
	e = spool_open(o->state, o->spool_bytes_max, &d->spool);
	if (e != ERR_OK) {
		log_line(LOG_LEVEL_ERROR, "spool_not_opened state=%s error=\"%s\"", o->state, err_text(e));
		return e;
	}
	return upload_open(d->loop, &options, d->spool, &d->upload);
}

enum err drain_open(struct loop *loop, const struct drain_options *options, struct drain **out_drain)
{
	struct drain *d = alloc_zeroed(sizeof(*d));
	enum err e;

	if (d == NULL)
		return ERR_NO_MEMORY;
	d->loop = loop;
	d->complaint = (struct log_limit){ .burst = 3, .interval_ms = 60000 };
	list_init(&d->sources);
	loop_timer_init(&d->poll, loop, on_poll, d);
	e = records_file_create(loop, on_poll, d, &d->file);
	if (e == ERR_OK)
		e = records_file_set_path(d->file, options->records);
	if (e == ERR_OK)
		e = open_upload(d, options);
	if (e == ERR_OK)
		e = loop_timer_start(&d->poll, POLL_MS);
	if (e != ERR_OK) {
		drain_close(d);
		return e;
	}
	if (d->spool != NULL)
		spool_set_dropping(d->spool, !options->is_audit_required);
	*out_drain = d;
	return ERR_OK;
}

void drain_close(struct drain *d)
{
	struct list_node *node;

	if (d == NULL)
		return;
	while (go_on(d, BATCHES_PER_TURN))
		;
	loop_timer_cancel(&d->poll);
	while ((node = list_pop_front(&d->sources)) != NULL)
		source_destroy(source_of(node));
	upload_close(d->upload);
	spool_close(d->spool);
	records_file_destroy(d->file);
	alloc_free(d);
}

void drain_set_options(struct drain *d, const struct drain_options *options)
{
	if (records_file_set_path(d->file, options->records) != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "records_kept_where_they_were error=\"%s\"", err_text(ERR_NO_MEMORY));
	if (d->spool != NULL)
		spool_set_dropping(d->spool, !options->is_audit_required);
}

void drain_reopen(struct drain *d)
{
	records_file_reopen(d->file);
}

void drain_tick(struct drain *d)
{
	records_file_tick(d->file);
	if (!d->poll.started && loop_timer_start(&d->poll, 0) != ERR_OK)
		log_limited(&d->complaint, LOG_LEVEL_ERROR, "timer_not_started name=records");
}

static struct source *find_source(struct drain *d, uint64_t boot)
{
	struct list_node *node, *next;

	LIST_FOREACH (node, next, &d->sources) {
		if (record_ring_boot(source_of(node)->ring) == boot)
			return source_of(node);
	}
	return NULL;
}

enum err drain_attach(struct drain *d, struct record_ring *ring, uint64_t number)
{
	struct source *s = find_source(d, record_ring_boot(ring));

	drain_detach(d);
	if (s != NULL) {
		/* It was only the connection that went away. */
		record_ring_destroy(ring);
	} else {
		s = alloc_zeroed(sizeof(*s));
		if (s != NULL)
			s->lanes = alloc_array(record_ring_lanes(ring), sizeof(*s->lanes));
		if (s == NULL || s->lanes == NULL) {
			record_ring_destroy(ring);
			alloc_free(s);
			return ERR_NO_MEMORY;
		}
		if (d->sources.count >= SOURCES_MAX)
			abandon(d, source_of(list_first(&d->sources)));
		s->ring = ring;
		s->lane_count = record_ring_lanes(ring);
		for (unsigned i = 0; i < s->lane_count; i++)
			start_lane(d, s, i);
		list_push_back(&d->sources, &s->node);
	}
	s->number = number;
	s->is_attached = true;
	return ERR_OK;
}

void drain_detach(struct drain *d)
{
	struct list_node *node, *next;

	LIST_FOREACH (node, next, &d->sources)
		source_of(node)->is_attached = false;
}

bool drain_is_daemon_draining(const struct drain *d)
{
	const struct list_node *node = d->sources.head.prev;

	if (d->sources.count == 0)
		return false;
	return record_ring_is_draining(CONTAINER_OF(node, const struct source, node)->ring);
}

void drain_count(const struct drain *d, struct drain_counts *out_counts)
{
	struct drain_counts c = { .sent = d->sent, .dropped = d->dropped, .repeats_lost = d->repeats_lost };
	struct list_node *node, *next;

	LIST_FOREACH (node, next, &d->sources)
		c.dropped += record_ring_dropped(CONTAINER_OF(node, struct source, node)->ring);
	if (d->spool != NULL) {
		spool_count(d->spool, &c.spool);
		c.has_spool = true;
		c.dropped += c.spool.dropped;
		c.sent = upload_sent(d->upload);
		c.post_failures = upload_failed(d->upload);
	}
	*out_counts = c;
}

size_t drain_failures(const struct drain *d)
{
	return records_file_has_failed(d->file) ? 1 : 0;
}
