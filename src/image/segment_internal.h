/* What segment.c and segment_verify.c share. */
#ifndef EGRESS_IMAGE_SEGMENT_INTERNAL_H
#define EGRESS_IMAGE_SEGMENT_INTERNAL_H

#include "base/refcount.h"
#include "image/segment.h"

struct segment {
	struct refcount refs;
	const uint8_t *bytes; /* owned: a copy, or a mapping of sealed memory */
	size_t size;
	bool mapped;
	uint8_t id[LAYOUT_ID_LEN];
};

static inline const struct layout_header *segment_header(const struct segment *s)
{
	return (const struct layout_header *)(const void *)s->bytes;
}

/* Compare everything that readers rely on. NULL when it holds, else a sentence (static text). */
const char *segment_verify(const struct segment *s) ATTR_MUST_CHECK;

#endif
