/* Writes big-endian fields within bounds. Once something did not fit nothing more is written. */
#include "base/sink.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct sink sink_over(void *bytes, size_t capacity)
{
	return (struct sink){ .bytes = bytes, .capacity = capacity };
}

void sink_bytes(struct sink *s, const void *bytes, size_t len)
{
	if (s->overflow)
		return;
	if (len > s->capacity - s->len) {
		s->overflow = true;
		return;
	}
	if (len > 0)
		memcpy(s->bytes + s->len, bytes, len);
	s->len += len;
}

static void write_be(struct sink *s, uint64_t v, size_t len)
{
	uint8_t bytes[8];

	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(v >> (8 * (len - 1 - i)));
	sink_bytes(s, bytes, len);
}

void sink_u8(struct sink *s, uint8_t v)
{
	write_be(s, v, 1);
}

void sink_be16(struct sink *s, uint16_t v)
{
	write_be(s, v, 2);
}

void sink_be24(struct sink *s, uint32_t v)
{
	if (v > 0xffffff)
		s->overflow = true;
	write_be(s, v, 3);
}

void sink_be32(struct sink *s, uint32_t v)
{
	write_be(s, v, 4);
}

void sink_be64(struct sink *s, uint64_t v)
{
	write_be(s, v, 8);
}

void sink_text(struct sink *s, const char *text)
{
	sink_bytes(s, text, strlen(text));
}

void sink_format(struct sink *s, const char *format, ...)
{
	/* Printed aside: vsnprintf would need room for a zero byte that the sink may not have. */
	char line[SINK_FORMAT_MAX + 1];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (len < 0 || (size_t)len >= sizeof(line)) {
		s->overflow = true;
		return;
	}
	sink_bytes(s, line, (size_t)len);
}
