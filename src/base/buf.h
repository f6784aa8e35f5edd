/* Byte queue that cannot be created without a maximum. Holds no memory while empty and trimmed. */
#ifndef EGRESS_BASE_BUF_H
#define EGRESS_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct buf {
	uint8_t *bytes; /* owned; NULL while nothing was stored */
	size_t start;   /* first unread byte */
	size_t len;     /* unread bytes */
	size_t capacity;
	size_t max;     /* most unread bytes it may ever hold */
};

/* Start empty; `max` must not be 0. */
void buf_init(struct buf *b, size_t max);
void buf_finish(struct buf *b);
/* Append all of `bytes` or nothing: LIMIT beyond max, NO_MEMORY. */
enum err buf_append(struct buf *b, const void *bytes, size_t len) ATTR_MUST_CHECK;
/* Make room for at least `want` more bytes and return where to write them; NULL on LIMIT or NO_MEMORY. */
uint8_t *buf_reserve(struct buf *b, size_t want) ATTR_MUST_CHECK;
/* Count `len` bytes, written where buf_reserve said, as stored. */
void buf_commit(struct buf *b, size_t len);
/* Drop `len` bytes from the front (at most all of them). */
void buf_consume(struct buf *b, size_t len);
/* Give the memory back when empty. */
void buf_trim(struct buf *b);
static inline const uint8_t *buf_data(const struct buf *b)
{
	return b->len == 0 ? NULL : b->bytes + b->start;
}
static inline size_t buf_room(const struct buf *b)
{
	return b->max - b->len;
}

#endif
