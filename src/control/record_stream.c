/*
 * Decision records from workers to their lanes of the ring; see record_stream.h. Refuses to know what a record says, but for folding repeated
 * denials and for what goes first when room is short. Called by daemon: put and tick on worker threads, create and destroy on the main one.
 */
#include "control/record_stream.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "control/fold_internal.h"

#define FOLDS_MIN 64 /* that a worker may hold */

struct writer {
	struct record_stream *stream; /* borrowed */
	unsigned lane;
	struct fold fold;
};

struct record_stream {
	struct record_ring *ring; /* owned */
	struct record_observer observer;
	atomic_uint_fast64_t sequence; /* numbers given so far, to records written and dropped */
	atomic_bool required;
	unsigned count;
	struct writer *writers; /* owned */
};

/* Those that go first when the lane fills: what was allowed, and how it ended. */
static bool is_dispensable(const struct record *r)
{
	return r->event == RECORD_CLOSE || (r->event == RECORD_DECISION && r->verdict.allow && !r->verdict.would_deny);
}

static size_t kept_back(const struct record_stream *s, const struct record *record)
{
	if (!is_dispensable(record) || atomic_load_explicit(&s->required, memory_order_relaxed))
		return 0;
	return record_ring_lane_size(s->ring) / 4;
}

static bool write_record(struct writer *w, const struct record *record)
{
	struct record_stream *s = w->stream;
	struct record numbered = *record;
	char line[RECORD_JSON_MAX];
	size_t len;

	numbered.sequence = atomic_fetch_add_explicit(&s->sequence, 1, memory_order_relaxed) + 1;
	len = record_json_write(&numbered, &s->observer, line, sizeof(line));
	if (len > 0 && record_ring_room(s->ring, w->lane) >= record_ring_need(len) + kept_back(s, record) &&
	    record_ring_put(s->ring, w->lane, numbered.sequence, line, len))
		return true;
	record_ring_count_dropped(s->ring, w->lane);
	return false;
}

/* A fold that is over: its last repetition goes out for all of them. */
static void on_folded(void *arg, const struct record *last)
{
	(void)write_record(arg, last);
}

static void tell_repeats(struct writer *w)
{
	record_ring_set_repeats(w->stream->ring, w->lane, fold_repeats(&w->fold));
}

bool record_stream_put(struct record_stream *s, const struct record *record)
{
	struct writer *w = &s->writers[record->worker % s->count];

	if (fold_offer(&w->fold, record, clock_mono_ms()) == FOLD_PASS)
		return write_record(w, record);
	tell_repeats(w);
	return true;
}

void record_stream_tick(struct record_stream *s, unsigned worker)
{
	struct writer *w = &s->writers[worker % s->count];

	if (fold_count(&w->fold) == 0)
		return;
	fold_expire(&w->fold, clock_mono_ms());
	tell_repeats(w);
}

bool record_stream_has_room(const struct record_stream *s, unsigned worker, size_t records, size_t spare)
{
	const struct writer *w = &s->writers[worker % s->count];
	size_t room = record_ring_room(s->ring, w->lane);

	return room >= spare && (room - spare) / record_ring_need(RECORD_JSON_MAX) >= records + fold_held(&w->fold);
}

struct record_ring *record_stream_ring(struct record_stream *s)
{
	return s->ring;
}

void record_stream_set_required(struct record_stream *s, bool required)
{
	atomic_store_explicit(&s->required, required, memory_order_relaxed);
}

static enum err start_writers(struct record_stream *s)
{
	size_t folds = FOLD_ENTRIES_MAX / s->count;
	enum err e = ERR_OK;

	s->writers = alloc_array(s->count, sizeof(*s->writers));
	if (s->writers == NULL)
		return ERR_NO_MEMORY;
	for (unsigned i = 0; i < s->count && e == ERR_OK; i++) {
		s->writers[i].stream = s;
		s->writers[i].lane = i;
		e = fold_init(&s->writers[i].fold, folds < FOLDS_MIN ? FOLDS_MIN : folds, on_folded, &s->writers[i]);
	}
	return e;
}

enum err record_stream_create(unsigned workers, size_t bytes, const struct record_observer *observer,
			      struct record_stream **out_stream)
{
	struct record_stream *s = alloc_zeroed(sizeof(*s));
	enum err e;

	if (s == NULL)
		return ERR_NO_MEMORY;
	s->observer = *observer;
	s->count = workers;
	e = record_ring_create(workers, bytes, &s->ring);
	if (e == ERR_OK)
		e = start_writers(s);
	if (e != ERR_OK) {
		record_stream_destroy(s);
		return e;
	}
	*out_stream = s;
	return ERR_OK;
}

void record_stream_destroy(struct record_stream *s)
{
	if (s == NULL)
		return;
	for (unsigned i = 0; s->writers != NULL && i < s->count; i++) {
		if (s->writers[i].stream == NULL)
			continue;
		fold_finish(&s->writers[i].fold);
		tell_repeats(&s->writers[i]);
	}
	record_ring_destroy(s->ring);
	alloc_free(s->writers);
	alloc_free(s);
}
