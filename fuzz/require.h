/* What fuzz targets share: a trap that fuzzers see, and blocks of exactly their size, in which a
 * byte too far is seen. */
#ifndef EGRESS_FUZZ_REQUIRE_H
#define EGRESS_FUZZ_REQUIRE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			__builtin_trap();                                                          \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
