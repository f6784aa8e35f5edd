/* One binary search for each length of prefix that a segment uses, longest first. Knows no rules, only their numbers. Called by match. */
#include "policy/prefix_index.h"

#include <string.h>

static void mask(const struct addr *a, uint8_t len, uint8_t out_octets[16])
{
	memset(out_octets, 0, 16);
	memcpy(out_octets, a->octets, len / 8u);
	if (len % 8 != 0)
		out_octets[len / 8] = (uint8_t)(a->octets[len / 8] & ~(0xff >> (len % 8)));
}

static const struct layout_prefix *find(const struct layout_prefix *prefixes, uint32_t count,
					const uint8_t octets[16])
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int order = memcmp(prefixes[middle].octets, octets, 16);

		if (order == 0)
			return &prefixes[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

void prefix_index_visit(const struct segment *s, const struct addr *a, prefix_index_fn *visit, void *arg)
{
	uint32_t group_count, count;
	const struct layout_prefix_group *groups =
		segment_table(s, LAYOUT_PREFIX_GROUPS, &group_count);
	const struct layout_prefix *prefixes = segment_table(s, LAYOUT_PREFIXES, &count);
	const uint32_t *refs = segment_table(s, LAYOUT_RULE_REFS, &count);

	for (uint32_t i = group_count; i-- > 0;) {
		const struct layout_prefix *p;
		uint8_t octets[16];

		if (groups[i].family != a->family)
			continue;
		mask(a, groups[i].len, octets);
		p = find(prefixes + groups[i].first, groups[i].count, octets);
		for (uint32_t k = 0; p != NULL && k < p->rules.count; k++)
			visit(arg, refs[p->rules.offset + k]);
	}
}
