/* What fuzz targets share: a trap that fuzzers see, blocks of exactly their size, in which a
 * byte too far is seen, and a voice for seeds whose outcome is checked (seeds/seeds.py). */
#ifndef EGRESS_FUZZ_REQUIRE_H
#define EGRESS_FUZZ_REQUIRE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			__builtin_trap();                                                          \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Say what happened, a line each, where EGRESS_FUZZ_TELL is set. */
ATTR_PRINTF(1, 2) static inline void tell(const char *format, ...)
{
	va_list args;

	if (getenv("EGRESS_FUZZ_TELL") == NULL)
		return;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

/* A copy that ends where the bytes end; free it. */
static inline uint8_t *exact_copy(const void *bytes, size_t len)
{
	uint8_t *copy = malloc(len > 0 ? len : 1);

	REQUIRE(copy != NULL);
	if (len > 0)
		memcpy(copy, bytes, len);
	return copy;
}

/* A cut inside `len` bytes, chosen by one byte of the input. */
static inline size_t cut_at(size_t len, uint8_t by)
{
	return len * by / 255;
}

#endif
