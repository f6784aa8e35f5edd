/*
 * Blocks in a chain, newest first; what is taken is never given back alone. Refuses beyond its limit. Knows
 * nothing of what is stored. Callers: compiler, configuration.
 */
#include "base/arena.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

/* Sanitizer builds give every object a block of its own, so that running over its end is seen. */
#ifdef EGRESS_SANITIZED
#define BLOCK_FIRST ((size_t)0)
#define BLOCK_MAX ((size_t)0)
#else
#define BLOCK_FIRST ((size_t)1024) /* ten thousand leases have an arena each */
#define BLOCK_MAX ((size_t)8192)
#endif

struct arena_block {
	struct arena_block *next; /* owned */
	size_t size;              /* bytes behind this header */
	size_t used;
	max_align_t bytes[];
};

void arena_init(struct arena *a, size_t limit)
{
	*a = (struct arena){ .limit = limit };
}

void arena_finish(struct arena *a)
{
	struct arena_block *block = a->blocks;

	while (block != NULL) {
		struct arena_block *next = block->next;

		alloc_free(block);
		block = next;
	}
	a->blocks = NULL;
	a->used = 0;
}

static struct arena_block *block_with_room(struct arena *a, size_t rounded)
{
	struct arena_block *block = a->blocks;
	size_t size = block == NULL ? BLOCK_FIRST : block->size * 2;

	if (block != NULL && block->size - block->used >= rounded)
		return block;
	if (size > BLOCK_MAX)
		size = BLOCK_MAX;
	if (size < rounded)
		size = rounded;
	block = alloc_zeroed(sizeof(*block) + size);
	if (block == NULL)
		return NULL;
	block->size = size;
	block->next = a->blocks;
	a->blocks = block;
	return block;
}

void *arena_take(struct arena *a, size_t size)
{
	size_t align = _Alignof(max_align_t);
	size_t rounded;
	struct arena_block *block;
	void *taken;

	if (size > SIZE_MAX / 2)
		return NULL;
	rounded = size == 0 ? align : (size + align - 1) / align * align;
	if (a->limit != 0 && (a->used > a->limit || rounded > a->limit - a->used))
		return NULL;
	block = block_with_room(a, rounded);
	if (block == NULL)
		return NULL;
	taken = (char *)block->bytes + block->used;
	block->used += rounded;
	a->used += rounded;
	return taken;
}

void *arena_take_array(struct arena *a, size_t count, size_t size)
{
	size_t total;

	if (__builtin_mul_overflow(count, size, &total))
		return NULL;
	return arena_take(a, total);
}

char *arena_text(struct arena *a, const char *text, size_t len)
{
	char *copy = len < SIZE_MAX ? arena_take(a, len + 1) : NULL;

	if (copy == NULL)
		return NULL;
	if (len > 0)
		memcpy(copy, text, len);
	return copy;
}
