/* One line of the control plane's stream to one frame. Strict, pure, hostile input: fuzzed. */
#ifndef EGRESS_STORE_HTTPS_FRAME_H
#define EGRESS_STORE_HTTPS_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"

#define HTTPS_FRAME_CURSOR_MAX 64       /* characters: letters, digits, - _ . */
#define HTTPS_FRAME_LINE_MAX (1u << 20) /* bytes */

enum https_frame_kind { HTTPS_FRAME_SNAP_BEGIN, HTTPS_FRAME_PUT, HTTPS_FRAME_DEL, HTTPS_FRAME_SNAP_END, HTTPS_FRAME_MARK, HTTPS_FRAME_BYE };

struct https_frame {
	enum https_frame_kind kind;
	const char *cursor;   /* NULL: none */
	struct text key;      /* of PUT and DEL */
	struct text envelope; /* of PUT and MARK, decoded */
	uint64_t retry_ms;    /* of BYE; 0: not said */
};

/* Everything in *out_frame lives in `arena`. INVALID: no such frame; NO_MEMORY. */
enum err https_frame_read(struct text line, struct arena *arena, struct https_frame *out_frame) ATTR_MUST_CHECK;

#endif
