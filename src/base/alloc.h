/*
 * The only caller of the C allocator. Sizes that overflow fail; tests can make the nth call fail.
 * Every function that returns memory returns NULL on failure, never aborts.
 */
#ifndef EGRESS_BASE_ALLOC_H
#define EGRESS_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/* Allocate `size` bytes, zeroed. The caller owns them (alloc_free). */
void *alloc_zeroed(size_t size) ATTR_MUST_CHECK;
/* Allocate `count` objects of `size` bytes, zeroed; NULL when the product overflows. */
void *alloc_array(size_t count, size_t size) ATTR_MUST_CHECK;
/* Resize to `count` objects of `size` bytes; new bytes are not zeroed. On failure the old block stays. */
void *alloc_resize(void *ptr, size_t count, size_t size) ATTR_MUST_CHECK;
/* Copy `len` bytes into a new block with one zero byte behind them. */
void *alloc_copy(const void *bytes, size_t len) ATTR_MUST_CHECK;
/* Free; accepts NULL. */
void alloc_free(void *ptr);

/* Make the nth allocation of this thread from now fail, once (1 is the next one; 0 switches it off). Tests only. */
void alloc_fail_at(uint64_t nth);
/* How many allocations this thread asked for since its last alloc_fail_at. */
uint64_t alloc_count(void);

#endif
