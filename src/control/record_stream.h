/*
 * Records from the workers into the ring: encodes, numbers, folds repeated denials, counts what finds no room. Everything happens on the
 * worker's own thread, before its guest is told, and without the kernel: what a guest has seen the effect of is in memory that outlives us.
 */
#ifndef EGRESS_CONTROL_RECORD_STREAM_H
#define EGRESS_CONTROL_RECORD_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "control/record_ring.h"
#include "decision/record.h"
#include "decision/record_json.h"

struct record_stream;

/*
 * A ring of `bytes` with a lane for each of `workers`. `observer` is copied, its texts are borrowed until destroy. Of repeated denials of one
 * lease, target and reason within 10 seconds the first is a record at once, the others become one with a count when those are over: kill -9
 * of the process loses such counts (the ring says how many repetitions stand in no record), never a first one.
 */
enum err record_stream_create(unsigned workers, size_t bytes, const struct record_observer *observer,
			      struct record_stream **out_stream) ATTR_MUST_CHECK;
/* When no thread puts any more; what is folded is written. Accepts NULL. */
void record_stream_destroy(struct record_stream *s);
/* For passing on, and for who reads; the stream keeps it. */
struct record_ring *record_stream_ring(struct record_stream *s);
/*
 * audit = required: nothing is dropped for what it is, for room was asked for before (record_stream_has_room). Otherwise the last quarter of
 * a lane is kept for what is not "allowed" or its close. Any thread.
 */
void record_stream_set_required(struct record_stream *s, bool required);
/* Write; on the thread of `record->worker`. False when it was dropped: a number without a record, counted in the ring. */
bool record_stream_put(struct record_stream *s, const struct record *record);
/* Write out the folds of this worker that are over; on its thread, some times a second. */
void record_stream_tick(struct record_stream *s, unsigned worker);
/* Will `records` more fit into this worker's lane, however long they are, beside its folds, with `spare` bytes left? On its thread. */
bool record_stream_has_room(const struct record_stream *s, unsigned worker, size_t records, size_t spare);

#endif
