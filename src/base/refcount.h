/* Atomic count for shared immutable objects. Who drops the last reference destroys. */
#ifndef EGRESS_BASE_REFCOUNT_H
#define EGRESS_BASE_REFCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>

struct refcount {
	atomic_uint count;
};

static inline void refcount_init(struct refcount *r)
{
	atomic_init(&r->count, 1);
}

static inline void refcount_ref(struct refcount *r)
{
	atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);
}

/* Drop one reference; true when it was the last and the object must go. */
static inline bool refcount_unref(struct refcount *r)
{
	return atomic_fetch_sub_explicit(&r->count, 1, memory_order_acq_rel) == 1;
}

/* Does the caller hold the only reference? Then nobody else can come by the object, and what others did with it is seen. */
static inline bool refcount_is_sole(const struct refcount *r)
{
	return atomic_load_explicit(&r->count, memory_order_acquire) == 1;
}

#endif
