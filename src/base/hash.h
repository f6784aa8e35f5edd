/* SipHash-1-3: a keyed hash, so that nobody outside can choose collisions. */
#ifndef EGRESS_BASE_HASH_H
#define EGRESS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash_key {
	uint64_t k0, k1;
};

/* Hash `len` bytes under `key`. The same on every machine (little-endian reading). */
uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t len);

#endif
