/* A byte queue in one block that slides and doubles, up to a maximum that it cannot exist without. */
#include "base/buf.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

#define FIRST_CAPACITY 256

void buf_init(struct buf *b, size_t max)
{
	assert(max > 0);
	*b = (struct buf){ .max = max };
}

void buf_finish(struct buf *b)
{
	alloc_free(b->bytes);
	*b = (struct buf){ .max = b->max };
}

static enum err grow(struct buf *b, size_t needed)
{
	size_t capacity = b->capacity == 0 ? FIRST_CAPACITY : b->capacity;
	uint8_t *bytes;

	while (capacity < needed && capacity <= b->max / 2)
		capacity *= 2;
	if (capacity < needed || capacity > b->max)
		capacity = b->max;
	bytes = alloc_resize(b->bytes, capacity, 1);
	if (bytes == NULL)
		return ERR_NO_MEMORY;
	b->bytes = bytes;
	b->capacity = capacity;
	return ERR_OK;
}

static enum err make_room(struct buf *b, size_t want)
{
	if (want > buf_room(b))
		return ERR_LIMIT;
	if (b->bytes != NULL && want <= b->capacity - b->start - b->len)
		return ERR_OK;
	if (b->start > 0) {
		memmove(b->bytes, b->bytes + b->start, b->len);
		b->start = 0;
	}
	if (b->bytes != NULL && want <= b->capacity - b->len)
		return ERR_OK;
	return grow(b, b->len + want);
}

enum err buf_append(struct buf *b, const void *bytes, size_t len)
{
	enum err e;

	if (len == 0)
		return ERR_OK;
	e = make_room(b, len);
	if (e != ERR_OK)
		return e;
	memcpy(b->bytes + b->start + b->len, bytes, len);
	b->len += len;
	return ERR_OK;
}

uint8_t *buf_reserve(struct buf *b, size_t want)
{
	if (make_room(b, want) != ERR_OK)
		return NULL;
	return b->bytes + b->start + b->len;
}

void buf_commit(struct buf *b, size_t len)
{
	assert(len <= b->capacity - b->start - b->len && len <= buf_room(b));
	b->len += len;
}

void buf_consume(struct buf *b, size_t len)
{
	if (len >= b->len) {
		b->start = 0;
		b->len = 0;
		return;
	}
	b->start += len;
	b->len -= len;
}

void buf_trim(struct buf *b)
{
	if (b->len == 0)
		buf_finish(b);
}
