/* The immutable whole that workers judge by. Nobody changes a world; a new one replaces it. */
#include "proxy/world.h"

#include <string.h>

#include "base/alloc.h"

struct world *world_create(uint64_t number, const struct world_parts *parts)
{
	struct world *w;

	if (parts->nat64_count > WORLD_NAT64_MAX)
		return NULL;
	w = alloc_zeroed(sizeof(*w));
	if (w == NULL)
		return NULL;
	refcount_init(&w->refs);
	w->number = number;
	w->table = parts->table == NULL ? NULL : lease_table_ref(parts->table);
	w->own = parts->own == NULL ? NULL : own_addresses_ref(parts->own);
	w->geoip = parts->geoip == NULL ? NULL : geoip_ref(parts->geoip);
	if (parts->nat64_count > 0)
		memcpy(w->nat64, parts->nat64, parts->nat64_count * sizeof(w->nat64[0]));
	w->site = (struct addr_site){
		.own = w->own,
		.nat64 = w->nat64,
		.nat64_count = parts->nat64_count,
	};
	w->options = *parts->options;
	return w;
}

struct world *world_ref(struct world *w)
{
	refcount_ref(&w->refs);
	return w;
}

void world_unref(struct world *w)
{
	if (w == NULL || !refcount_unref(&w->refs))
		return;
	if (w->table != NULL)
		lease_table_unref(w->table);
	if (w->own != NULL)
		own_addresses_unref(w->own);
	if (w->geoip != NULL)
		geoip_unref(w->geoip);
	alloc_free(w);
}

struct snapshot *world_snapshot(const struct world *w)
{
	return w->table == NULL ? NULL : lease_table_snapshot(w->table);
}
