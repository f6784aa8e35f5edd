/* What is kept per lease on its home worker. Knows sessions only as list members; called by worker and the files of the flow. */
#include "proxy/lease_home.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

/* The monotonic moment at which a lease that ends at `exp_ms` of wall time ends, seen from now. */
static uint64_t expiry_mono(uint64_t exp_ms, uint64_t wall_ms, uint64_t now_ms)
{
	if (exp_ms == 0)
		return UINT64_MAX;
	return exp_ms <= wall_ms ? now_ms : now_ms + (exp_ms - wall_ms);
}

static uint64_t limit_or(uint64_t own, uint64_t fallback)
{
	return own != 0 ? own : fallback;
}

struct lease_home *lease_home_create(const struct lease_table_entry *entry, uint64_t wall_ms, uint64_t now_ms)
{
	struct lease_home *h = alloc_zeroed(sizeof(*h));

	if (h == NULL)
		return NULL;
	h->slot = entry->slot;
	h->expires_mono_ms = UINT64_MAX;
	list_init(&h->sessions);
	lease_home_follow(h, entry, wall_ms, now_ms);
	return h;
}

void lease_home_destroy(struct lease_home *h)
{
	if (h == NULL)
		return;
	assert(h->sessions.count == 0);
	pins_destroy(h->pins);
	dns_budget_finish(&h->dns);
	alloc_free(h->destinations);
	recent_finish(&h->refused);
	alloc_free(h);
}

void lease_home_follow(struct lease_home *h, const struct lease_table_entry *entry, uint64_t wall_ms, uint64_t now_ms)
{
	uint64_t exp_before = h->lease.exp_ms;

	h->entry = entry;
	if (entry == NULL) {
		if (h->pins != NULL)
			pins_flush(h->pins);
		return;
	}
	lease_table_read(entry, &h->lease);
	h->rate.bytes_per_s = h->lease.limits.bytes_per_s == UINT64_MAX ? 0 : h->lease.limits.bytes_per_s;
	if (h->lease.exp_ms != exp_before || h->expires_mono_ms == UINT64_MAX)
		h->expires_mono_ms = expiry_mono(h->lease.exp_ms, wall_ms, now_ms);
}

struct pins *lease_home_pins(struct lease_home *h, const struct world_options *o)
{
	uint64_t names = lease_home_dns_limits(h, o).names;
	/* Two families a name; as many names as the budget remembers. */
	size_t max = 2 * (size_t)(names > DNS_BUDGET_NAMES_MAX ? DNS_BUDGET_NAMES_MAX : names);

	if (h->pins == NULL)
		h->pins = pins_create(max);
	else
		pins_set_max(h->pins, max);
	return h->pins;
}

/* The cell of a destination: names and addresses alike, by their canonical text. Not keyed by chance but by slot: a guest that
 * finds two names in one cell only shares its own limit. */
static struct bucket *destination(struct lease_home *h, const struct target *target)
{
	char text[TARGET_TEXT_MAX];
	struct hash_key key = { .k0 = h->slot, .k1 = 0x64657374 };

	if (h->destinations == NULL) {
		h->destinations = alloc_array(LEASE_HOME_DESTINATIONS, sizeof(*h->destinations));
		if (h->destinations == NULL)
			return NULL;
	}
	target_print(target, text);
	return &h->destinations[hash_bytes(&key, text, strlen(text)) % LEASE_HOME_DESTINATIONS];
}

enum reason lease_home_admit(struct lease_home *h, const struct world_options *o, const struct target *target, uint64_t now_ms)
{
	const struct layout_limits *own = &h->lease.limits;
	uint64_t connections = limit_or(own->connections, o->connections);
	uint64_t per_destination = limit_or(own->connects_per_s_destination, o->connects_per_s_destination);

	/* The session that asks is already in the list. */
	if (connections != 0 && h->sessions.count > connections)
		return REASON_LIMIT_CONNECTIONS;
	if (!bucket_take(&h->connects, limit_or(own->connects_per_s, o->connects_per_s), now_ms))
		return REASON_LIMIT_RATE;
	if (target != NULL && per_destination != 0) {
		struct bucket *b = destination(h, target);

		if (b == NULL)
			return REASON_RESOURCE;
		if (!bucket_take(b, per_destination, now_ms))
			return REASON_LIMIT_RATE;
	}
	/* What was closed for its bytes does not go on a connection at a time. */
	if (own->bytes != 0 && h->bytes_closed >= own->bytes)
		return REASON_LIMIT_BYTES;
	return REASON_ALLOWED;
}

struct dns_budget_limits lease_home_dns_limits(const struct lease_home *h, const struct world_options *o)
{
	const struct layout_limits *own = &h->lease.limits;

	return (struct dns_budget_limits){
		.lookups_per_s = limit_or(own->lookups_per_s, o->lookups_per_s),
		.failures_per_s = limit_or(own->lookup_failures_per_s, o->lookup_failures_per_s),
		.names = limit_or(own->names, limit_or(o->names, LEASE_HOME_NAMES_MAX)),
	};
}

enum reason lease_home_admit_lookup(struct lease_home *h, const struct world_options *o, const struct dname *name, size_t free_len,
				    uint64_t now_ms)
{
	struct dns_budget_limits limits = lease_home_dns_limits(h, o);

	return dns_budget_admit(&h->dns, &limits, (struct text){ name->text, name->len }, free_len, now_ms);
}

void lease_home_lookup_failed(struct lease_home *h, const struct world_options *o, uint64_t now_ms)
{
	struct dns_budget_limits limits = lease_home_dns_limits(h, o);

	dns_budget_failed(&h->dns, &limits, now_ms);
}

uint64_t lease_home_idle_ms(const struct lease_home *h, const struct world_options *o)
{
	return limit_or(h->lease.limits.idle_ms, o->idle_ms);
}

uint64_t lease_home_lifetime_ms(const struct lease_home *h, const struct world_options *o)
{
	return limit_or(h->lease.limits.lifetime_ms, o->lifetime_ms);
}
