/* See recent.h. */
#include "proxy/recent.h"

#include "base/alloc.h"

void recent_remember(struct recent *r, const struct record *record)
{
	struct record **cell = &r->at[r->count % RECENT_MAX];

	if (*cell == NULL)
		*cell = alloc_zeroed(sizeof(**cell));
	if (*cell == NULL)
		return;
	**cell = *record;
	r->count++;
}

const struct record *recent_next(const struct recent *r, uint64_t *io_at)
{
	uint64_t oldest = r->count < RECENT_MAX ? 0 : r->count - RECENT_MAX;

	if (*io_at < oldest)
		*io_at = oldest;
	return *io_at < r->count ? r->at[(*io_at)++ % RECENT_MAX] : NULL;
}

void recent_finish(struct recent *r)
{
	for (unsigned i = 0; i < RECENT_MAX; i++)
		alloc_free(r->at[i]);
	*r = (struct recent){ .count = 0 };
}
