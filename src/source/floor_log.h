/*
 * Floors that move with every change, a line each at the end of a file: the last revision of each lease and the last manifest of our cell.
 * What was taken is found again after a kill -9 in the next turn; a power cut may lose what no beat is young enough to bring back.
 * Knows no signature. Called by floors.
 */
#ifndef EGRESS_SOURCE_FLOOR_LOG_H
#define EGRESS_SOURCE_FLOOR_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "source/floor_mark.h"

#define FLOOR_LOG_LEASES_MAX 400000 /* leases that are remembered; more are refused */

struct floor_log;

/*
 * Read `floors.log` of the folder (a descriptor, borrowed for good); no such file, or one of another cell: nothing is known. What cannot
 * be understood or written is no failure here but floor_log_is_broken; a last line without an end was being written and counts as none.
 */
enum err floor_log_open(int folder, const char *cell, struct floor_log **out_log) ATTR_MUST_CHECK;
/* Accepts NULL. */
void floor_log_close(struct floor_log *log);
/* Unreadable since start (and then never written), or not written at the last try. */
bool floor_log_is_broken(const struct floor_log *log);

/* NULL: none. Borrowed until the next take. */
const struct floor_mark *floor_log_lease(const struct floor_log *log, const char *id);
/*
 * In memory and in the file before this returns; not in the file: broken. `exp_ms`: when this revision ends; a lease is forgotten once
 * everything that was ever taken of it has ended by control's own clock (`said_ms`). LIMIT, NO_MEMORY: nothing changed.
 */
enum err floor_log_take_lease(struct floor_log *log, const char *id, const struct floor_mark *mark, uint64_t exp_ms,
			      uint64_t said_ms) ATTR_MUST_CHECK;
/* Number 0: none. */
const struct floor_mark *floor_log_manifest(const struct floor_log *log);
void floor_log_take_manifest(struct floor_log *log, const struct floor_mark *mark);
/* Write again what could not be written. */
void floor_log_flush(struct floor_log *log);

#endif
