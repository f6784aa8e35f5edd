/* What the tests of spool, upload and drain share: lines that say their number, and their frames. */
#ifndef EGRESS_TESTS_UNIT_DELIVERY_RECORDS_FIXTURE_H
#define EGRESS_TESTS_UNIT_DELIVERY_RECORDS_FIXTURE_H

#include "delivery/spool.h"

/* "{"n":NUMBER, …}\n" of `len` bytes (at least 64) in a static buffer; 64 of them at a time. */
struct text records_line(uint64_t number, size_t len);
/* The frame of that line in lane 0 of boot `boot`, at the position number + 1. */
struct spool_frame records_frame(uint64_t boot, uint64_t number, size_t len);
/* Append lines with these numbers, one call each. */
void records_append(struct spool *s, uint64_t boot, uint64_t from, uint64_t to, size_t len);
/* Does the batch hold exactly the lines with these numbers? */
bool records_batch_is(const struct spool_batch *b, uint64_t from, uint64_t to, size_t len);

#endif
