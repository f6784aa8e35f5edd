/*
 * The only file that calls the C allocator. Promises NULL instead of a wrapped product, and lets a test make
 * the nth allocation of its thread fail. The count is per thread so that workers share no cache line.
 */
#include "base/alloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local uint64_t asked;
static _Thread_local uint64_t fail_at;

static bool may_allocate(void)
{
	asked++;
	return fail_at == 0 || asked != fail_at;
}

void *alloc_zeroed(size_t size)
{
	return alloc_array(1, size);
}

void *alloc_array(size_t count, size_t size)
{
	size_t total;

	if (__builtin_mul_overflow(count, size, &total) || !may_allocate())
		return NULL;
	return calloc(1, total == 0 ? 1 : total);
}

void *alloc_resize(void *ptr, size_t count, size_t size)
{
	size_t total;

	if (__builtin_mul_overflow(count, size, &total) || !may_allocate())
		return NULL;
	/* A size of zero would free the block and return NULL: success and failure would look alike. */
	return realloc(ptr, total == 0 ? 1 : total);
}

void *alloc_copy(const void *bytes, size_t len)
{
	size_t total;
	char *copy;

	if (__builtin_add_overflow(len, (size_t)1, &total) || !may_allocate())
		return NULL;
	copy = malloc(total);
	if (copy == NULL)
		return NULL;
	if (len > 0)
		memcpy(copy, bytes, len);
	copy[len] = '\0';
	return copy;
}

void alloc_free(void *ptr)
{
	free(ptr);
}

void alloc_fail_at(uint64_t nth)
{
	asked = 0;
	fail_at = nth;
}

uint64_t alloc_count(void)
{
	return asked;
}
