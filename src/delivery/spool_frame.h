/*
 * How records lie in a spool file: frames with a checksum, one behind the other. A file that ends inside of a frame was torn; one with
 * a frame that is not what its checksum says is damaged.
 */
#ifndef EGRESS_DELIVERY_SPOOL_FRAME_H
#define EGRESS_DELIVERY_SPOOL_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/cursor.h"
#include "base/text.h"
#include "control/record_ring.h"

#define SPOOL_FRAME_HEAD 48 /* bytes before the line */

enum spool_frame_kind {
	SPOOL_FRAME_LINE = 1,
	SPOOL_FRAME_CUT = 2, /* a batch ends here */
};

struct spool_frame {
	enum spool_frame_kind kind;
	uint64_t boot, sequence;
	uint32_t lane;
	uint64_t position; /* of the ring, behind the line: what stands here needs not be taken from there again */
	struct text line;  /* borrowed; with the newline; empty for CUT */
};

/* Bytes that the frame takes. */
size_t spool_frame_size(const struct spool_frame *f);
/* Write it; `out` has room for its size. */
void spool_frame_put(const struct spool_frame *f, uint8_t *out);
/* Read the frame at the start of `bytes`; MORE: it is not whole. The line points into `bytes`. */
enum parsed spool_frame_take(const uint8_t *bytes, size_t len, struct spool_frame *out_frame) ATTR_MUST_CHECK;

#endif
