/*
 * What all workers judge by: the leases in force, the host's own addresses, places and options. Immutable and counted; built aside by the
 * daemon, swapped whole, adopted by each worker at the end of a turn.
 */
#ifndef EGRESS_PROXY_WORLD_H
#define EGRESS_PROXY_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/refcount.h"
#include "facts/addr_class.h"
#include "facts/geoip.h"
#include "facts/own_addresses.h"
#include "lease/lease_table.h"
#include "net/race.h"

#define WORLD_SERVERS_MAX 8
#define WORLD_NAT64_MAX 8

/* Which address families are asked for and dialled. */
enum world_family { WORLD_PREFER_V6, WORLD_PREFER_V4, WORLD_ONLY_V4, WORLD_ONLY_V6 };

/* What operators can set and workers look at. Times in milliseconds. */
struct world_options {
	uint64_t handshake_ms, first_flight_ms, connect_ms, half_closed_ms;
	uint64_t dns_total_ms, dns_try_ms;      /* of one lookup; 0: the resolver's own */
	uint64_t idle_ms, lifetime_ms;          /* of leases that set none */
	uint64_t connections, connects_per_s, connects_per_s_destination; /* likewise; 0: no limit */
	uint64_t lookups_per_s, lookup_failures_per_s, names;             /* likewise */
	uint32_t handshakes_per_source;         /* unfinished ones; 0: no limit */
	uint64_t hold_bytes_max;                /* first flights held by one worker, in all */
	uint32_t connections_max;               /* sessions of all workers */
	enum world_family family;
	struct addr source4, source6;           /* family NONE: the kernel chooses */
	bool truthful_bound_address;            /* reply with our end's address instead of zeros */
	bool splice;
	bool audit_required;
	struct endpoint servers[WORLD_SERVERS_MAX];
	size_t server_count;
};

struct world {
	struct refcount refs;
	uint64_t number;              /* grows with every world */
	struct lease_table *table;    /* counted; NULL before the first snapshot */
	struct own_addresses *own;    /* counted; may be NULL */
	struct geoip *geoip;          /* counted; may be NULL */
	struct addr_nat64 nat64[WORLD_NAT64_MAX];
	struct addr_site site;        /* over `own` and `nat64` */
	struct world_options options;
};

/* What a world is made of; references are taken. */
struct world_parts {
	struct lease_table *table;
	struct own_addresses *own;
	struct geoip *geoip;
	const struct addr_nat64 *nat64; /* at most WORLD_NAT64_MAX */
	size_t nat64_count;
	const struct world_options *options;
};

struct world *world_create(uint64_t number, const struct world_parts *parts) ATTR_MUST_CHECK;
struct world *world_ref(struct world *w);
void world_unref(struct world *w);
/* The snapshot in force, NULL before the first. */
struct snapshot *world_snapshot(const struct world *w);

#endif
