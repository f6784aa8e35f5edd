/* Sums blocks and writes them in the Prometheus text format (0.0.4). */
#ifndef EGRESS_METRICS_EXPOSITION_H
#define EGRESS_METRICS_EXPOSITION_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "metrics/metrics.h"

/* Append all series, summed over `count` blocks, to `out`. LIMIT or NO_MEMORY leave a part of it. */
enum err exposition_write(struct metrics *const *blocks, size_t count, struct buf *out) ATTR_MUST_CHECK;

#endif
