/*
 * Records on disk until control has them: a bounded queue of batches in a folder of files. What was appended survives our death; a torn end is
 * cut off (the ring still has it), a damaged file is set aside and counted. Knows no network; told by drain, emptied by upload.
 */
#ifndef EGRESS_DELIVERY_SPOOL_H
#define EGRESS_DELIVERY_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "delivery/spool_frame.h"

#define SPOOL_FILE_BYTES (256u << 10) /* a file that has so many gets no more */

struct spool;

/* Open `state`/spool, made when missing, and read what is there. The state folder is ours alone. */
enum err spool_open(const char *state, uint64_t bytes_max, struct spool **out_spool) ATTR_MUST_CHECK;
/* Accepts NULL. */
void spool_close(struct spool *s);

/*
 * With `may_drop` a full spool gives up its oldest batches, counted; without, it takes no more (LIMIT). What a bound says, a full disk says too.
 */
void spool_set_dropping(struct spool *s, bool may_drop);
/* Append all of these lines of one daemon's start, or (on any error) none. SYSTEM, LIMIT, NO_MEMORY. */
enum err spool_append(struct spool *s, const struct spool_frame *frames, size_t count) ATTR_MUST_CHECK;
/* Up to which position of the lane the spool found lines when it was opened; 0: none. */
uint64_t spool_position(const struct spool *s, uint64_t boot, uint32_t lane);

/* The oldest lines, up to a cut. */
struct spool_batch {
	char *lines;             /* owned */
	size_t len, count;
	uint64_t boot, sequence; /* of the first line */
};

/* Is there one? Fresh lines are left to grow into a batch for `settle_ms`. */
bool spool_has_batch(const struct spool *s, uint64_t settle_ms);
/* Load the oldest batch; it stays as it is until spool_take, spool_split or spool_give_up. NOT_FOUND: there is none. */
enum err spool_load(struct spool *s, struct spool_batch *out_batch) ATTR_MUST_CHECK;
void spool_batch_finish(struct spool_batch *b);
/* The loaded batch has arrived: it is gone. SYSTEM: it is still there, and must be sent again. */
enum err spool_take(struct spool *s) ATTR_MUST_CHECK;
/* Make two of the loaded batch. LIMIT: it is one line. */
enum err spool_split(struct spool *s) ATTR_MUST_CHECK;
/* Lose the loaded batch, counted. */
void spool_give_up(struct spool *s);

struct spool_counts {
	uint64_t bytes, records;   /* there now */
	uint64_t spooled, dropped; /* records since start */
	uint64_t damaged_files, torn;
	uint64_t oldest_wall_ms;   /* 0: empty */
};
void spool_count(const struct spool *s, struct spool_counts *out_counts);

#endif
