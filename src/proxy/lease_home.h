/*
 * Everything kept per lease on its home worker: live sessions, pins, budgets, recent refusals. Plain single-threaded state; it
 * appears with the first request of a lease and goes when the lease has left the world and its last session has ended.
 */
#ifndef EGRESS_PROXY_LEASE_HOME_H
#define EGRESS_PROXY_LEASE_HOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/htab.h"
#include "base/list.h"
#include "lease/lease_table.h"
#include "net/pins.h"
#include "net/relay.h"
#include "proxy/bucket.h"
#include "proxy/dns_budget.h"
#include "proxy/recent.h"
#include "proxy/redirect.h"
#include "proxy/world.h"

#define LEASE_HOME_DESTINATIONS 256 /* cells of the per-destination rate limit; two that share one share its rate */
#define LEASE_HOME_NAMES_MAX 500    /* where nobody sets a limit on names */

struct lease_home {
	struct htab_node node;      /* in the worker's table, by slot */
	struct list_node peers;     /* in the worker's list of homes */
	uint32_t slot;
	struct lease lease;         /* as of the world in force, or as last seen */
	const struct lease_table_entry *entry; /* borrowed from the world in force; NULL once the lease left it */
	uint64_t expires_mono_ms;   /* from exp_ms when it was first seen: a wall clock set back extends nothing; UINT64_MAX: never */
	struct list sessions;       /* of struct session by in_home, in every phase, borrowed */
	struct pins *pins;          /* owned; NULL before the first lookup */
	struct bucket connects;
	struct dns_budget dns;
	struct bucket *destinations; /* owned array of LEASE_HOME_DESTINATIONS; NULL before the first request */
	struct relay_rate rate;     /* bytes_per_s, shared by all its relays */
	uint64_t bytes_closed;      /* relayed by connections that have ended */
	uint64_t hold_bytes;        /* that its tunnels hold back now */
	struct redirect_seen redirects[REDIRECT_REMEMBERED_MAX]; /* ring */
	uint64_t redirect_count;
	struct recent refused;
};

struct lease_home *lease_home_create(const struct lease_table_entry *entry, uint64_t wall_ms, uint64_t now_ms)
	ATTR_MUST_CHECK;
/* All sessions must have left. Accepts NULL. */
void lease_home_destroy(struct lease_home *h);
/* The world changed: follow the lease (NULL: it is gone). Pins stay unless the lease went. */
void lease_home_follow(struct lease_home *h, const struct lease_table_entry *entry, uint64_t wall_ms, uint64_t now_ms);
/* The lease's pins, made at first use; NULL without memory. */
struct pins *lease_home_pins(struct lease_home *h, const struct world_options *o);
/* May one more connection to `target` start now? ALLOWED, limit_connections or limit_rate; counts it against the rates. */
enum reason lease_home_admit(struct lease_home *h, const struct world_options *o, const struct target *target, uint64_t now_ms);
/* May `name` be looked up now, of which the rule leaves `free_len` bytes open? ALLOWED, which counts it, dns_budget or resource. */
enum reason lease_home_admit_lookup(struct lease_home *h, const struct world_options *o, const struct dname *name, size_t free_len,
				    uint64_t now_ms) ATTR_MUST_CHECK;
/* A lookup came to nothing: counts it against the budget of failures. */
void lease_home_lookup_failed(struct lease_home *h, const struct world_options *o, uint64_t now_ms);
/* What is in force for lookups. */
struct dns_budget_limits lease_home_dns_limits(const struct lease_home *h, const struct world_options *o);
/* Limits in force: the lease's own, else the daemon's default. */
uint64_t lease_home_idle_ms(const struct lease_home *h, const struct world_options *o);
uint64_t lease_home_lifetime_ms(const struct lease_home *h, const struct world_options *o);

#endif
