/* A region freed in one go: for trees that live and die together (compiler, configuration). */
#ifndef EGRESS_BASE_ARENA_H
#define EGRESS_BASE_ARENA_H

#include <stddef.h>

#include "base/attr.h"

struct arena_block;

struct arena {
	struct arena_block *blocks; /* owned, newest first */
	size_t used;                /* bytes handed out, for limits and tests */
	size_t limit;               /* bytes; 0 means none */
};

/* Start an empty arena that hands out at most `limit` bytes (0: no limit). */
void arena_init(struct arena *a, size_t limit);
/* Free everything that came from it. */
void arena_finish(struct arena *a);
/* Take `size` zeroed bytes, aligned for any type; NULL when memory or the limit runs out. */
void *arena_take(struct arena *a, size_t size) ATTR_MUST_CHECK;
/* Take `count` objects of `size` zeroed bytes each; NULL when the product overflows. */
void *arena_take_array(struct arena *a, size_t count, size_t size) ATTR_MUST_CHECK;
/* Copy `len` bytes of text and end them with a zero byte. */
char *arena_text(struct arena *a, const char *text, size_t len) ATTR_MUST_CHECK;

#endif
