/*
 * Bounded reader whose first failure sticks: parsers read in a straight line and check once.
 * Codec results are the same three everywhere: OK, MORE (a longer input may succeed), BAD.
 */
#ifndef EGRESS_BASE_CURSOR_H
#define EGRESS_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum parsed { PARSED_OK, PARSED_MORE, PARSED_BAD };

struct cursor {
	const uint8_t *at;  /* borrowed from whoever owns the bytes */
	const uint8_t *end;
	enum parsed status; /* OK until the first failure; later reads return zeros */
	enum parsed short_status; /* what running out of bytes means: MORE, or BAD inside a counted field */
};

/* Read over `len` bytes; running out means MORE. */
struct cursor cursor_over(const void *bytes, size_t len);
/* Read over `len` bytes that are all there will be; running out means BAD. */
struct cursor cursor_over_whole(const void *bytes, size_t len);
uint8_t cursor_u8(struct cursor *c);
uint16_t cursor_be16(struct cursor *c);
uint32_t cursor_be24(struct cursor *c);
uint32_t cursor_be32(struct cursor *c);
uint64_t cursor_be64(struct cursor *c);
/* Step over `len` bytes and return where they start; NULL once failed. */
const uint8_t *cursor_bytes(struct cursor *c, size_t len);
/* Read one byte that must be `value`; anything else is BAD. */
void cursor_expect(struct cursor *c, uint8_t value);
/* A cursor over the next `len` bytes, in which running out is BAD; steps over them. Failed like `c` when they are not there. */
struct cursor cursor_sub(struct cursor *c, size_t len);
/* Mark as BAD unless it failed before. */
void cursor_fail(struct cursor *c);
static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->at);
}
static inline bool cursor_ok(const struct cursor *c)
{
	return c->status == PARSED_OK;
}

#endif
