/*
 * An immutable set of prefixes for a question asked at every connect: sorted by family, length and
 * address, so that one binary search per distinct length answers it, also on hosts with thousands
 * of guest interfaces.
 */
#include "facts/own_addresses.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/refcount.h"

/* A run of prefixes of one family and length. */
struct own_group {
	uint8_t family, len;
	size_t start, count;
};

#define GROUPS_MAX (33 + 129)

struct own_addresses {
	struct refcount refs;
	size_t count, group_count;
	struct own_group groups[GROUPS_MAX];
	struct prefix prefixes[];
};

/* Bits beyond `len` cleared. */
static struct addr masked(const struct addr *a, uint8_t len)
{
	struct addr m = *a;

	for (size_t bit = len; bit < 128; bit = (bit / 8 + 1) * 8)
		m.octets[bit / 8] &= (uint8_t) ~(0xff >> (bit % 8));
	return m;
}

static int compare(const void *left, const void *right)
{
	const struct prefix *a = left, *b = right;

	if (a->addr.family != b->addr.family)
		return a->addr.family < b->addr.family ? -1 : 1;
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return addr_compare(&a->addr, &b->addr);
}

static void group(struct own_addresses *own)
{
	for (size_t i = 0; i < own->count; i++) {
		const struct prefix *p = &own->prefixes[i];
		struct own_group *last =
			own->group_count > 0 ? &own->groups[own->group_count - 1] : NULL;

		if (last == NULL || last->family != p->addr.family || last->len != p->len) {
			last = &own->groups[own->group_count++];
			*last = (struct own_group){ .family = p->addr.family,
						    .len = p->len,
						    .start = i };
		}
		last->count++;
	}
}

/* Whole and of a family that addresses have. */
static bool is_sound(const struct prefix *p)
{
	return (p->addr.family == ADDR_V4 && p->len <= 32) ||
	       (p->addr.family == ADDR_V6 && p->len <= 128);
}

struct own_addresses *own_addresses_create(const struct prefix *prefixes, size_t count)
{
	struct own_addresses *own;

	if (count > (SIZE_MAX - sizeof(*own)) / sizeof(own->prefixes[0]))
		return NULL;
	own = alloc_zeroed(sizeof(*own) + count * sizeof(own->prefixes[0]));
	if (own == NULL)
		return NULL;
	refcount_init(&own->refs);
	for (size_t i = 0; i < count; i++) {
		if (!is_sound(&prefixes[i]))
			continue;
		own->prefixes[own->count] = prefixes[i];
		own->prefixes[own->count++].addr = masked(&prefixes[i].addr, prefixes[i].len);
	}
	if (own->count > 0)
		qsort(own->prefixes, own->count, sizeof(own->prefixes[0]), compare);
	group(own);
	return own;
}

struct own_addresses *own_addresses_ref(struct own_addresses *own)
{
	refcount_ref(&own->refs);
	return own;
}

void own_addresses_unref(struct own_addresses *own)
{
	if (own != NULL && refcount_unref(&own->refs))
		alloc_free(own);
}

bool own_addresses_contain(const struct own_addresses *own, const struct addr *a)
{
	if (own == NULL)
		return false;
	for (size_t i = 0; i < own->group_count; i++) {
		const struct own_group *g = &own->groups[i];
		struct prefix key = { .len = g->len };

		if (g->family != a->family)
			continue;
		key.addr = masked(a, g->len);
		if (bsearch(&key, own->prefixes + g->start, g->count, sizeof(key), compare) != NULL)
			return true;
	}
	return false;
}

size_t own_addresses_count(const struct own_addresses *own)
{
	return own == NULL ? 0 : own->count;
}
