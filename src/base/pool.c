/* Objects of one size for one thread. Promises zeroed objects and never more than its limit; knows not what they are. */
#include "base/pool.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

struct pool_free {
	struct pool_free *next; /* owned by the pool */
};

void pool_init(struct pool *p, const char *name, size_t object_size, size_t limit)
{
	*p = (struct pool){
		.name = name,
		.object_size = object_size > sizeof(struct pool_free) ? object_size :
									sizeof(struct pool_free),
		.limit = limit,
		.free_keep = POOL_FREE_KEEP,
	};
#ifdef EGRESS_SANITIZED
	p->free_keep = 0;
#endif
}

void pool_finish(struct pool *p)
{
	struct pool_free *free_object = p->free_list;

	assert(p->live == 0);
	while (free_object != NULL) {
		struct pool_free *next = free_object->next;

		alloc_free(free_object);
		free_object = next;
	}
	p->free_list = NULL;
	p->free_count = 0;
}

void *pool_take(struct pool *p)
{
	struct pool_free *object = p->free_list;

	if (p->limit != 0 && p->live >= p->limit)
		return NULL;
	if (object != NULL) {
		p->free_list = object->next;
		p->free_count--;
		memset(object, 0, p->object_size);
	} else {
		object = alloc_zeroed(p->object_size);
		if (object == NULL)
			return NULL;
	}
	p->live++;
	if (p->live > p->high_water)
		p->high_water = p->live;
	return object;
}

void pool_give(struct pool *p, void *object)
{
	struct pool_free *free_object = object;

	if (object == NULL)
		return;
	assert(p->live > 0);
	p->live--;
	if (p->free_count >= p->free_keep) {
		alloc_free(object);
		return;
	}
	free_object->next = p->free_list;
	p->free_list = free_object;
	p->free_count++;
}

void pool_disown(struct pool *p)
{
	assert(p->live > 0);
	p->live--;
}

void pool_adopt(struct pool *p)
{
	p->live++;
	if (p->live > p->high_water)
		p->high_water = p->live;
}
