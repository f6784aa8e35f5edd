/* Fixed-size objects with a name, a limit, a live count and a high-water mark. One thread. */
#ifndef EGRESS_BASE_POOL_H
#define EGRESS_BASE_POOL_H

#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"

struct pool {
	const char *name;    /* static text */
	size_t object_size;  /* bytes */
	size_t limit;        /* objects; 0 means none */
	size_t live;         /* objects taken and not given back */
	size_t high_water;   /* most live at any time */
	void *free_list;     /* owned: given back and kept for the next taker */
	size_t free_count;
	size_t free_keep;    /* how many free ones are kept; the rest go back to the system */
};

#define POOL_FREE_KEEP 256 /* default of free_keep; sanitizer builds keep none, so that use after give is seen */

/* Start a pool of objects of `object_size` bytes, at most `limit` live (0: none). */
void pool_init(struct pool *p, const char *name, size_t object_size, size_t limit);
/* Free the kept objects. All objects must have been given back. */
void pool_finish(struct pool *p);
/* Take one zeroed object; NULL when the limit or memory is exhausted. */
void *pool_take(struct pool *p) ATTR_MUST_CHECK;
/* Give one back; accepts NULL. */
void pool_give(struct pool *p, void *object);
/* A live object leaves this pool for another thread's pool of the same size; it stops counting here. */
void pool_disown(struct pool *p);
/* A live object from another thread's pool counts here from now on, even beyond the limit: it exists already. */
void pool_adopt(struct pool *p);

#endif
