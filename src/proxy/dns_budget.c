/*
 * A table of hashed names that is swept when it is full; see dns_budget.h. Keeps no name, so that a look into memory tells none. Called by
 * lease_home.
 */
#include "proxy/dns_budget.h"

#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"

#define ROOM_FIRST 64

void dns_budget_finish(struct dns_budget *b)
{
	alloc_free(b->names);
	*b = (struct dns_budget){ 0 };
}

/* Bits of a choice among `count`, rounded up; at least one, for asking or not is a choice too. */
static uint32_t choice_bits(size_t count)
{
	uint32_t bits = 0;

	while (((size_t)1 << bits) < count)
		bits++;
	return bits > 0 ? bits : 1;
}

uint32_t dns_budget_bits(struct text labels)
{
	bool seen[256] = { false };
	uint32_t len = 0, different = 0;

	for (size_t i = 0; i < labels.len; i++) {
		uint8_t c = (uint8_t)labels.at[i];

		if (c == '.')
			continue;
		len++;
		different += !seen[c];
		seen[c] = true;
	}
	return len * choice_bits(different);
}

/* The cell of a hash, or the free one where it belongs. */
static struct dns_budget_name *cell_of(struct dns_budget_name *names, size_t room, uint64_t hash)
{
	size_t at = hash & (room - 1);

	while (names[at].hash != 0 && names[at].hash != hash)
		at = (at + 1) & (room - 1);
	return &names[at];
}

/* Put what still counts into a table of `room` cells. */
static bool rebuild(struct dns_budget *b, size_t room, uint64_t now_ms)
{
	struct dns_budget_name *names = alloc_array(room, sizeof(*names));
	size_t count = 0;
	uint64_t bits = 0, oldest_ms = now_ms;

	if (names == NULL)
		return false;
	for (size_t i = 0; i < b->room; i++) {
		const struct dns_budget_name *n = &b->names[i];

		if (n->hash == 0 || n->asked_ms + DNS_BUDGET_WINDOW_MS <= now_ms)
			continue;
		*cell_of(names, room, n->hash) = *n;
		count++;
		bits += n->bits;
		if (n->asked_ms < oldest_ms)
			oldest_ms = n->asked_ms;
	}
	alloc_free(b->names);
	b->names = names;
	b->room = room;
	b->name_count = count;
	b->bits = bits;
	b->oldest_ms = oldest_ms;
	return true;
}

/* Room for one more name, at most half full so that a search is short. */
static bool make_room(struct dns_budget *b, uint64_t now_ms)
{
	if (b->room == 0) {
		if (crypto_random(&b->key, sizeof(b->key)) != ERR_OK)
			return false;
		return rebuild(b, ROOM_FIRST, now_ms);
	}
	if (b->name_count < b->room / 2)
		return true;
	return rebuild(b, b->room * 2, now_ms);
}

/* Forget what no longer counts, where something may. */
static bool sweep(struct dns_budget *b, uint64_t now_ms)
{
	return b->room == 0 || b->oldest_ms + DNS_BUDGET_WINDOW_MS > now_ms || rebuild(b, b->room, now_ms);
}

static bool is_full(const struct dns_budget *b, uint64_t names, uint32_t bits)
{
	return b->name_count >= names || b->bits + bits > names * DNS_BUDGET_BITS_PER_NAME;
}

/* A name that the lease has, below a wildcard, is asked for once more: which of them, and when, is a message as well. */
static bool admit_again(struct dns_budget *b, uint64_t names, uint64_t now_ms)
{
	uint64_t full = names * DNS_BUDGET_BITS_AGAIN * 1000, cost = 1000u * choice_bits(b->name_count);
	uint64_t passed = now_ms - b->again_at_ms < DNS_BUDGET_WINDOW_MS ? now_ms - b->again_at_ms : DNS_BUDGET_WINDOW_MS;
	uint64_t faded = full * passed / DNS_BUDGET_WINDOW_MS;

	if (faded >= b->again_milli) {
		b->again_milli = 0;
		b->again_at_ms = now_ms;
	} else {
		/* Time that was too short for a whole step is kept for the next. */
		b->again_milli -= faded;
		b->again_at_ms += (faded * DNS_BUDGET_WINDOW_MS + full - 1) / full;
	}
	if (b->again_milli + cost > full)
		return false;
	b->again_milli += cost;
	return true;
}

static enum reason admit_name(struct dns_budget *b, uint64_t names, struct text name, size_t free_len, uint64_t now_ms)
{
	uint32_t bits = dns_budget_bits((struct text){ name.at, free_len < name.len ? free_len : name.len });
	struct dns_budget_name *cell;
	uint64_t hash;

	if (names == 0 || names > DNS_BUDGET_NAMES_MAX)
		names = DNS_BUDGET_NAMES_MAX;
	if (!make_room(b, now_ms))
		return REASON_RESOURCE;
	hash = hash_bytes(&b->key, name.at, name.len);
	hash += hash == 0;
	cell = cell_of(b->names, b->room, hash);
	if (cell->hash == hash) {
		if (free_len > 0 && !admit_again(b, names, now_ms))
			return REASON_DNS_BUDGET;
		cell->asked_ms = now_ms;
		return REASON_ALLOWED;
	}
	if (is_full(b, names, bits)) {
		if (!sweep(b, now_ms))
			return REASON_RESOURCE;
		if (is_full(b, names, bits))
			return REASON_DNS_BUDGET;
		cell = cell_of(b->names, b->room, hash);
	}
	*cell = (struct dns_budget_name){ .hash = hash, .asked_ms = now_ms, .bits = bits };
	b->name_count++;
	b->bits += bits;
	return REASON_ALLOWED;
}

enum reason dns_budget_admit(struct dns_budget *b, const struct dns_budget_limits *limits, struct text name, size_t free_len,
			     uint64_t now_ms)
{
	struct bucket look = b->failures; /* a look, not a count: failures are counted when they happen */
	enum reason why = REASON_DNS_BUDGET;

	if (bucket_take(&look, limits->failures_per_s, now_ms) && bucket_take(&b->lookups, limits->lookups_per_s, now_ms))
		why = admit_name(b, limits->names, name, free_len, now_ms);
	b->refused += why != REASON_ALLOWED;
	return why;
}

void dns_budget_failed(struct dns_budget *b, const struct dns_budget_limits *limits, uint64_t now_ms)
{
	(void)bucket_take(&b->failures, limits->failures_per_s, now_ms);
}
