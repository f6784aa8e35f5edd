/* Bounded writer whose first overflow sticks: encoders write in a straight line and check once. */
#ifndef EGRESS_BASE_SINK_H
#define EGRESS_BASE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct sink {
	uint8_t *bytes; /* borrowed */
	size_t capacity;
	size_t len;
	bool overflow;
};

struct sink sink_over(void *bytes, size_t capacity);
void sink_u8(struct sink *s, uint8_t v);
void sink_be16(struct sink *s, uint16_t v);
void sink_be24(struct sink *s, uint32_t v);
void sink_be32(struct sink *s, uint32_t v);
void sink_be64(struct sink *s, uint64_t v);
void sink_bytes(struct sink *s, const void *bytes, size_t len);
/* Append text without its zero byte. */
void sink_text(struct sink *s, const char *text);
#define SINK_FORMAT_MAX 1023 /* bytes that one sink_format may print; more is an overflow */
/* Append formatted text without a zero byte. */
void sink_format(struct sink *s, const char *format, ...) ATTR_PRINTF(2, 3);
static inline bool sink_ok(const struct sink *s)
{
	return !s->overflow;
}

#endif
