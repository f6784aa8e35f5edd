/* Domain suffix lookup over a verified segment: keyed hash of every suffix, right to left (longest name first in the answer). */
#ifndef EGRESS_POLICY_LABEL_INDEX_H
#define EGRESS_POLICY_LABEL_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/dname.h"
#include "image/segment.h"

/* One entry found: rules for the very name (exact) or for names below it (wildcard). */
typedef void label_index_fn(void *arg, uint32_t rule_number);

/* Visit the numbers of all rules whose host covers `name`: exact rules of the name itself, wildcard rules of each proper suffix. */
void label_index_visit(const struct segment *s, const struct dname *name, label_index_fn *visit, void *arg);

#endif
