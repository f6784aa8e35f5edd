/* Shared limits of sources that are not (yet) leases. Relaxed atomics: a limit may be off by the few threads that race for it. */
#include "proxy/limits.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/crypto.h"
#include "base/hash.h"

#define LIMITS_CELLS 8192 /* a power of two */
#define LIMITS_FORGIVE_MS 60000

struct limits_cell_state {
	atomic_uint_fast32_t handshakes;
	atomic_uint_fast32_t delayed;
	atomic_uint_fast32_t failures;
	atomic_uint_fast64_t last_failure_ms;
};

struct limits {
	struct hash_key key;
	atomic_uint_fast32_t connections;
	struct limits_cell_state cell[LIMITS_CELLS];
};

struct limits *limits_create(void)
{
	struct limits *l = alloc_zeroed(sizeof(*l));

	if (l == NULL)
		return NULL;
	if (crypto_random(&l->key, sizeof(l->key)) != ERR_OK) {
		alloc_free(l);
		return NULL;
	}
	return l;
}

void limits_destroy(struct limits *l)
{
	alloc_free(l);
}

uint32_t limits_cell(const struct limits *l, const struct lease_arrival *arrival)
{
	const struct addr *a = &arrival->source.addr;
	uint64_t hash;

	if (a->family == ADDR_NONE)
		hash = hash_bytes(&l->key, arrival->listener, strlen(arrival->listener));
	else if (a->family == ADDR_V6)
		hash = hash_bytes(&l->key, a->octets, 8); /* a guest owns its whole /64 */
	else
		hash = hash_bytes(&l->key, a->octets, 4);
	return (uint32_t)(hash & (LIMITS_CELLS - 1));
}

static bool begin(atomic_uint_fast32_t *count, uint32_t max)
{
	if (atomic_fetch_add_explicit(count, 1, memory_order_relaxed) < max)
		return true;
	atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
	return false;
}

bool limits_connection_begin(struct limits *l, uint32_t max)
{
	return begin(&l->connections, max);
}

void limits_connection_end(struct limits *l)
{
	atomic_fetch_sub_explicit(&l->connections, 1, memory_order_relaxed);
}

bool limits_handshake_begin(struct limits *l, uint32_t cell, uint32_t max)
{
	return begin(&l->cell[cell].handshakes, max == 0 ? UINT32_MAX : max);
}

void limits_handshake_end(struct limits *l, uint32_t cell)
{
	atomic_fetch_sub_explicit(&l->cell[cell].handshakes, 1, memory_order_relaxed);
}

uint32_t limits_login_failed(struct limits *l, uint32_t cell, uint64_t now_ms)
{
	struct limits_cell_state *c = &l->cell[cell];
	uint64_t last = atomic_exchange_explicit(&c->last_failure_ms, now_ms, memory_order_relaxed);
	uint_fast32_t failures;
	uint32_t delay_ms = LIMITS_DELAY_FIRST_MS;

	if (now_ms > last && now_ms - last > LIMITS_FORGIVE_MS)
		atomic_store_explicit(&c->failures, 0, memory_order_relaxed);
	failures = atomic_fetch_add_explicit(&c->failures, 1, memory_order_relaxed);
	if (failures < LIMITS_FAILURES_FREE)
		delay_ms = 0;
	for (uint_fast32_t i = LIMITS_FAILURES_FREE; i < failures && delay_ms < LIMITS_DELAY_MAX_MS; i++)
		delay_ms *= 2;
	if (delay_ms > LIMITS_DELAY_MAX_MS)
		delay_ms = LIMITS_DELAY_MAX_MS;
	if (delay_ms == 0)
		return 0;
	if (atomic_fetch_add_explicit(&c->delayed, 1, memory_order_relaxed) >= LIMITS_DELAYED_MAX) {
		atomic_fetch_sub_explicit(&c->delayed, 1, memory_order_relaxed);
		return UINT32_MAX;
	}
	return delay_ms;
}

void limits_delay_ended(struct limits *l, uint32_t cell)
{
	atomic_fetch_sub_explicit(&l->cell[cell].delayed, 1, memory_order_relaxed);
}
