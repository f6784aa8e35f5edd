/* Bytes for tests: hex text to bytes, and copies of exactly their size, so that the sanitizer sees
 * the first byte too far. */
#ifndef EGRESS_TESTS_WIRE_HEX_H
#define EGRESS_TESTS_WIRE_HEX_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Decode hex text (blanks are skipped) into `out_bytes`; returns the count. */
static inline size_t hex_bytes(const char *hex, uint8_t *out_bytes)
{
	static const char digits[] = "0123456789abcdef";
	size_t count = 0;
	unsigned nibble = 0;

	for (; *hex != '\0'; hex++) {
		const char *digit = strchr(digits, *hex);

		if (digit == NULL)
			continue;
		out_bytes[nibble / 2] = (uint8_t)((unsigned)out_bytes[nibble / 2] << 4 |
						  (unsigned)(digit - digits));
		if (nibble++ % 2 == 1)
			count++;
	}
	return count;
}

/* A block of exactly `len` bytes; the caller frees it. A block of none is one that may not be read
 * at all. */
static inline uint8_t *exact_copy(const void *bytes, size_t len)
{
	uint8_t *block = malloc(len == 0 ? 1 : len);

	if (block == NULL)
		abort();
	if (len == 0) {
		free(block);
		return NULL;
	}
	memcpy(block, bytes, len);
	return block;
}

#endif
