/* The set of the host's own addresses and networks: immutable, shared by reference; fed from net/address_watch and options. */
#ifndef EGRESS_FACTS_OWN_ADDRESSES_H
#define EGRESS_FACTS_OWN_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/addr.h"
#include "base/attr.h"

struct own_addresses;

/* Build a set of `count` prefixes (an address is a full-length prefix); copies them. NULL without memory. */
struct own_addresses *own_addresses_create(const struct prefix *prefixes, size_t count) ATTR_MUST_CHECK;
struct own_addresses *own_addresses_ref(struct own_addresses *own);
void own_addresses_unref(struct own_addresses *own);
/* Is `a` one of them, or inside one of them? NULL contains nothing. */
bool own_addresses_contain(const struct own_addresses *own, const struct addr *a);
size_t own_addresses_count(const struct own_addresses *own);

#endif
