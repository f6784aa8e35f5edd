/* All prefixes of a verified segment that contain an address. */
#ifndef EGRESS_POLICY_PREFIX_INDEX_H
#define EGRESS_POLICY_PREFIX_INDEX_H

#include "base/addr.h"
#include "image/segment.h"

typedef void prefix_index_fn(void *arg, uint32_t rule_number);

void prefix_index_visit(const struct segment *s, const struct addr *a, prefix_index_fn *visit, void *arg);

#endif
