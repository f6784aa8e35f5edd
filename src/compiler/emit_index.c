/* The two indexes of a segment: names by keyed hash, prefixes by family and length. Sorted input makes them deterministic; see emit_internal.h. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/hash.h"
#include "compiler/emit_internal.h"

#define SEEDS_PER_SIZE 8
#define SLOTS_MAX (LAYOUT_SEGMENT_MAX / sizeof(struct layout_label_slot))

static bool is_named(const struct emitter_host *h)
{
	return h->rule->host == RULE_HOST_NAME || h->rule->host == RULE_HOST_WILDCARD;
}

static bool is_prefix(const struct emitter_host *h)
{
	return h->rule->host == RULE_HOST_PREFIX;
}

static int compare_numbers(uint32_t a, uint32_t b)
{
	return a < b ? -1 : a > b;
}

/* By name, exact before wildcard, then source order. */
static int compare_names(const void *left, const void *right)
{
	const struct emitter_host *a = left, *b = right;
	int order = strcmp(a->rule->name.text, b->rule->name.text);

	if (order == 0)
		order = (a->rule->host == RULE_HOST_WILDCARD) - (b->rule->host == RULE_HOST_WILDCARD);
	return order != 0 ? order : compare_numbers(a->number, b->number);
}

static int compare_prefixes(const void *left, const void *right)
{
	const struct emitter_host *a = left, *b = right;
	const struct prefix *p = &a->rule->prefix, *q = &b->rule->prefix;
	int order = compare_numbers(p->addr.family, q->addr.family);

	if (order == 0)
		order = compare_numbers(p->len, q->len);
	if (order == 0)
		order = memcmp(p->addr.octets, q->addr.octets, sizeof(p->addr.octets));
	return order != 0 ? order : compare_numbers(a->number, b->number);
}

/* The hosts of one sort, in order. NULL when there are none, or without memory (then the emitter has failed). */
static struct emitter_host *sorted_hosts(struct emitter *e, bool (*is_wanted)(const struct emitter_host *),
					 int (*compare)(const void *, const void *), size_t *out_count)
{
	struct emitter_host *hosts;
	size_t count = 0;

	*out_count = 0;
	if (e->failed != ERR_OK || e->host_count == 0)
		return NULL;
	hosts = alloc_array(e->host_count, sizeof(*hosts));
	if (hosts == NULL) {
		e->failed = ERR_NO_MEMORY;
		return NULL;
	}
	for (size_t i = 0; i < e->host_count; i++)
		if (is_wanted(&e->hosts[i]))
			hosts[count++] = e->hosts[i];
	qsort(hosts, count, sizeof(*hosts), compare);
	*out_count = count;
	return hosts;
}

/* References to hosts[first, last). */
static struct layout_span add_refs(struct emitter *e, const struct emitter_host *hosts, size_t first, size_t last)
{
	struct layout_span span = { .count = (uint32_t)(last - first) };

	for (size_t i = first; i < last; i++) {
		uint32_t number = emitter_add(e, LAYOUT_RULE_REFS, &hosts[i].number, 1);

		if (i == first)
			span.offset = number;
	}
	return span;
}

/* Place every entry; false when some would stand too far from home. */
static bool fill_slots(const struct emitter *e, struct hash_key key, struct layout_label_slot *slots, uint32_t slot_count)
{
	const struct layout_label_entry *entries = (const void *)e->table[LAYOUT_LABEL_ENTRIES].bytes;
	const char *strings = (const char *)e->table[LAYOUT_STRINGS].bytes;

	memset(slots, 0, slot_count * sizeof(*slots));
	for (uint32_t i = 0; i < e->table[LAYOUT_LABEL_ENTRIES].count; i++) {
		uint64_t hash = hash_bytes(&key, strings + entries[i].name.offset, entries[i].name.len);
		uint32_t at = layout_label_home(hash, slot_count), step = 0;

		while (step < LAYOUT_PROBE_MAX && slots[(at + step) & (slot_count - 1)].entry != 0)
			step++;
		if (step == LAYOUT_PROBE_MAX)
			return false;
		slots[(at + step) & (slot_count - 1)] = (struct layout_label_slot){ layout_label_tag(hash), i + 1 };
	}
	return true;
}

/* Seeds follow from the content, so that nobody chooses them and everybody gets the same. */
static enum err next_seed(const struct emitter *e, uint8_t digest[CRYPTO_SHA256_LEN], struct hash_key *out_key)
{
	const struct emitter_table *strings = &e->table[LAYOUT_STRINGS];
	bool is_first = true;
	enum err err;

	for (size_t i = 0; i < CRYPTO_SHA256_LEN; i++)
		is_first = is_first && digest[i] == 0;
	err = is_first ? crypto_sha256(strings->bytes, strings->count, digest) : crypto_sha256(digest, CRYPTO_SHA256_LEN, digest);
	if (err != ERR_OK)
		return err;
	*out_key = (struct hash_key){ 0 };
	for (unsigned i = 0; i < 8; i++) {
		out_key->k0 |= (uint64_t)digest[i] << (8 * i);
		out_key->k1 |= (uint64_t)digest[8 + i] << (8 * i);
	}
	return ERR_OK;
}

/* A power of two, at most half full, in which no name stands LAYOUT_PROBE_MAX slots from home. */
static void add_slots(struct emitter *e)
{
	uint8_t digest[CRYPTO_SHA256_LEN] = { 0 };
	struct layout_label_slot *slots = NULL;
	size_t slot_count = 2;
	enum err err = ERR_OK;

	while (slot_count < 2 * e->table[LAYOUT_LABEL_ENTRIES].count)
		slot_count *= 2;
	for (unsigned attempt = 0; err == ERR_OK; attempt++) {
		struct hash_key key;
		void *moved;

		if (attempt > 0 && attempt % SEEDS_PER_SIZE == 0)
			slot_count *= 2;
		if (slot_count > SLOTS_MAX) {
			err = ERR_LIMIT;
			break;
		}
		moved = alloc_resize(slots, slot_count, sizeof(*slots));
		if (moved == NULL) {
			err = ERR_NO_MEMORY;
			break;
		}
		slots = moved;
		err = next_seed(e, digest, &key);
		if (err == ERR_OK && fill_slots(e, key, slots, (uint32_t)slot_count)) {
			emitter_add(e, LAYOUT_LABEL_SLOTS, slots, slot_count);
			e->seed0 = key.k0;
			e->seed1 = key.k1;
			break;
		}
	}
	alloc_free(slots);
	/* What emitter_add found wrong stays. */
	if (err != ERR_OK)
		e->failed = err;
}

void emitter_index_labels(struct emitter *e)
{
	size_t count;
	struct emitter_host *hosts = sorted_hosts(e, is_named, compare_names, &count);

	for (size_t first = 0; first < count && e->failed == ERR_OK;) {
		struct layout_label_entry entry = { .name = hosts[first].name };
		size_t wild = first, last;

		while (wild < count && hosts[wild].rule->host == RULE_HOST_NAME &&
		       dname_equal(&hosts[wild].rule->name, &hosts[first].rule->name))
			wild++;
		last = wild;
		while (last < count && hosts[last].rule->host == RULE_HOST_WILDCARD &&
		       dname_equal(&hosts[last].rule->name, &hosts[first].rule->name))
			last++;
		entry.exact = add_refs(e, hosts, first, wild);
		entry.wildcard = add_refs(e, hosts, wild, last);
		emitter_add(e, LAYOUT_LABEL_ENTRIES, &entry, 1);
		first = last;
	}
	if (count > 0 && e->failed == ERR_OK)
		add_slots(e);
	alloc_free(hosts);
}

static bool same_group(const struct emitter_host *a, const struct emitter_host *b)
{
	return a->rule->prefix.addr.family == b->rule->prefix.addr.family && a->rule->prefix.len == b->rule->prefix.len;
}

void emitter_index_prefixes(struct emitter *e)
{
	size_t count;
	struct emitter_host *hosts = sorted_hosts(e, is_prefix, compare_prefixes, &count);

	for (size_t first = 0; first < count && e->failed == ERR_OK;) {
		struct layout_prefix_group group = {
			.family = hosts[first].rule->prefix.addr.family,
			.len = hosts[first].rule->prefix.len,
			.first = (uint32_t)e->table[LAYOUT_PREFIXES].count,
		};
		size_t at = first;

		while (at < count && same_group(&hosts[at], &hosts[first])) {
			struct layout_prefix prefix = { 0 };
			size_t last = at;

			memcpy(prefix.octets, hosts[at].rule->prefix.addr.octets, sizeof(prefix.octets));
			while (last < count && same_group(&hosts[last], &hosts[at]) &&
			       addr_equal(&hosts[last].rule->prefix.addr, &hosts[at].rule->prefix.addr))
				last++;
			prefix.rules = add_refs(e, hosts, at, last);
			emitter_add(e, LAYOUT_PREFIXES, &prefix, 1);
			group.count++;
			at = last;
		}
		emitter_add(e, LAYOUT_PREFIX_GROUPS, &group, 1);
		first = at;
	}
	alloc_free(hosts);
}
