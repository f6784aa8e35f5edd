/* Reads big-endian fields within bounds. Once failed it stays failed, stays where it was and returns zeros. */
#include "base/cursor.h"

static const uint8_t nothing[1];

static struct cursor over(const void *bytes, size_t len, enum parsed short_status)
{
	const uint8_t *at = bytes != NULL ? bytes : nothing;

	return (struct cursor){
		.at = at,
		.end = bytes != NULL ? at + len : at,
		.status = PARSED_OK,
		.short_status = short_status,
	};
}

struct cursor cursor_over(const void *bytes, size_t len)
{
	return over(bytes, len, PARSED_MORE);
}

struct cursor cursor_over_whole(const void *bytes, size_t len)
{
	return over(bytes, len, PARSED_BAD);
}

const uint8_t *cursor_bytes(struct cursor *c, size_t len)
{
	const uint8_t *at = c->at;

	if (c->status != PARSED_OK)
		return NULL;
	if (len > cursor_left(c)) {
		c->status = c->short_status;
		return NULL;
	}
	c->at += len;
	return at;
}

static uint64_t read_be(struct cursor *c, size_t len)
{
	const uint8_t *at = cursor_bytes(c, len);
	uint64_t v = 0;

	if (at == NULL)
		return 0;
	for (size_t i = 0; i < len; i++)
		v = v << 8 | at[i];
	return v;
}

uint8_t cursor_u8(struct cursor *c)
{
	return (uint8_t)read_be(c, 1);
}

uint16_t cursor_be16(struct cursor *c)
{
	return (uint16_t)read_be(c, 2);
}

uint32_t cursor_be24(struct cursor *c)
{
	return (uint32_t)read_be(c, 3);
}

uint32_t cursor_be32(struct cursor *c)
{
	return (uint32_t)read_be(c, 4);
}

uint64_t cursor_be64(struct cursor *c)
{
	return read_be(c, 8);
}

void cursor_expect(struct cursor *c, uint8_t value)
{
	if (cursor_u8(c) != value)
		cursor_fail(c);
}

struct cursor cursor_sub(struct cursor *c, size_t len)
{
	struct cursor sub = *c;
	const uint8_t *at = cursor_bytes(c, len);

	if (at == NULL) {
		sub.end = sub.at;
		sub.status = c->status;
	} else {
		sub.end = at + len;
	}
	sub.short_status = PARSED_BAD;
	return sub;
}

void cursor_fail(struct cursor *c)
{
	if (c->status == PARSED_OK)
		c->status = PARSED_BAD;
}
