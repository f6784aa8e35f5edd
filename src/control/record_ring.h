/*
 * Encoded records in a memfd that daemon and sidecar both hold, so that neither's death takes them along: one lane a worker, one writer and
 * one reader each. A line is there once its lane's head is stored, whole or not at all; it goes once the reader stores the tail. Neither side
 * believes the other: the writer never reads a position of its own back, the reader checks every length and byte.
 */
#ifndef EGRESS_CONTROL_RECORD_RING_H
#define EGRESS_CONTROL_RECORD_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "decision/record_json.h"

#define RECORD_RING_LANES_MAX 64
#define RECORD_RING_LANE_MIN 65536 /* bytes */

struct record_ring; /* a mapping of the memfd */

/* Room that a line of `len` bytes takes. */
size_t record_ring_need(size_t len);

/* Create one with `lanes` lanes that share `bytes` (each gets RECORD_RING_LANE_MIN at least), its memory taken now. SYSTEM, INVALID, NO_MEMORY. */
enum err record_ring_create(unsigned lanes, size_t bytes, struct record_ring **out_ring) ATTR_MUST_CHECK;
/* Map one that was received. Borrows `fd`. INVALID when it is not one of ours. */
enum err record_ring_map(int fd, struct record_ring **out_ring) ATTR_MUST_CHECK;
/* Accepts NULL. */
void record_ring_destroy(struct record_ring *r);
/* Its descriptor, for passing on; -1 for a mapped one. */
int record_ring_fd(const struct record_ring *r);
/* Random, of the daemon's start: sequence numbers belong to it. */
uint64_t record_ring_boot(const struct record_ring *r);
unsigned record_ring_lanes(const struct record_ring *r);

/*
 * The daemon's half; a lane is of one thread. No call waits or enters the kernel.
 */
/* False: there is no room, and nothing happened. */
bool record_ring_put(struct record_ring *r, unsigned lane, uint64_t sequence, const char *line, size_t len);
size_t record_ring_lane_size(const struct record_ring *r);
size_t record_ring_room(const struct record_ring *r, unsigned lane);
/* A record got its number and no room. */
void record_ring_count_dropped(struct record_ring *r, unsigned lane);
/* Repetitions of denials that stand in no record yet. */
void record_ring_set_repeats(struct record_ring *r, unsigned lane, uint64_t repeats);
/* Who may read from now on: the number that this sidecar is told. */
void record_ring_set_reader(struct record_ring *r, uint64_t number);
/* The daemon is about to end; its last records are yet to come. */
void record_ring_set_draining(struct record_ring *r);
/* Dropped so far, in all lanes. Both sides. */
uint64_t record_ring_dropped(const struct record_ring *r);

/*
 * The sidecar's half.
 */
enum record_ring_seen { RECORD_RING_EMPTY, RECORD_RING_LINE, RECORD_RING_DAMAGED };

struct record_ring_line {
	uint64_t sequence;
	size_t len;                 /* with the newline */
	char text[RECORD_JSON_MAX]; /* printable ASCII, one line */
};

bool record_ring_may_read(const struct record_ring *r, uint64_t number);
bool record_ring_is_draining(const struct record_ring *r);
uint64_t record_ring_repeats(const struct record_ring *r);
/* Where reading goes on. */
uint64_t record_ring_tail(const struct record_ring *r, unsigned lane);
/* Copy the line at *at and move *at behind it. DAMAGED: no honest writer left this (record_ring_skip). */
enum record_ring_seen record_ring_look(const struct record_ring *r, unsigned lane, uint64_t *at, struct record_ring_line *out_line);
/* Give back the room up to `to`, read from `from` on. False: somebody else reads. */
bool record_ring_take(struct record_ring *r, unsigned lane, uint64_t from, uint64_t to);
/* Give up what the lane holds. */
void record_ring_skip(struct record_ring *r, unsigned lane);

#endif
