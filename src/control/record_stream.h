/*
 * Bounded queue of records from the workers to a descriptor that the sidecar opened: encodes, numbers, folds repeated denials, counts
 * what it drops. Writing happens on one thread; workers hand records over. Never blocks a worker.
 */
#ifndef EGRESS_CONTROL_RECORD_STREAM_H
#define EGRESS_CONTROL_RECORD_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "decision/record.h"
#include "decision/record_json.h"
#include "metrics/metrics.h"
#include "net/loop.h"

struct record_stream;

/*
 * One stream for the process, writing on `loop` (the main one). `metrics` is that loop's block; `observer` is copied, its texts are borrowed
 * until destroy. At most `queue_max` records wait; the last quarter of it is kept for what is not "allowed" or its close. Repeated
 * denials of one lease, target and reason within 10 seconds become one record with a count, written when those are over.
 */
enum err record_stream_create(struct loop *loop, struct metrics *metrics, const struct record_observer *observer,
			      size_t queue_max, struct record_stream **out_stream) ATTR_MUST_CHECK;
/*
 * When no thread puts any more. Turns the loop until what threads handed over has arrived; call it outside of the loop's callbacks.
 * What was not written counts as dropped.
 */
void record_stream_destroy(struct record_stream *s);
/*
 * Write to this descriptor from now on (taken over; -1: none, records are counted as dropped). A line that the old one got a part of is
 * written whole to the new one. The process must ignore SIGPIPE.
 */
void record_stream_set_sink(struct record_stream *s, int fd);
/* Hand over a copy; any thread. False when it was dropped (queue full): the caller counts nothing, the stream does. */
bool record_stream_put(struct record_stream *s, const struct record *record);
/* Is there a sink, and room for any other record (audit = required)? Any thread. */
bool record_stream_has_room(const struct record_stream *s);
/* Write out what is queued and folded, for at most `wait_ms` (shutdown), turning the loop: call it outside of its callbacks. */
void record_stream_drain(struct record_stream *s, unsigned wait_ms);

#endif
