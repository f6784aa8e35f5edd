/*
 * What is limited before a lease is known, shared by all workers (atomic counters): connections in all, unfinished handshakes and failed
 * logins per source.
 * A fixed table by keyed hash: two sources that share a cell share its limit, never escape it.
 */
#ifndef EGRESS_PROXY_LIMITS_H
#define EGRESS_PROXY_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "lease/lease.h"

#define LIMITS_FAILURES_FREE 5   /* failed logins of a source that cost no delay, per minute */
#define LIMITS_DELAY_FIRST_MS 100
#define LIMITS_DELAY_MAX_MS 5000
#define LIMITS_DELAYED_MAX 32    /* answers held back for one source at a time; beyond it: close at once */

struct limits;

struct limits *limits_create(void) ATTR_MUST_CHECK;
void limits_destroy(struct limits *l);
/* The cell of an arrival: its source address, or its listener for unix sockets. */
uint32_t limits_cell(const struct limits *l, const struct lease_arrival *arrival);

/* Count a guest connection of the process; false when it has `max` already. */
bool limits_connection_begin(struct limits *l, uint32_t max) ATTR_MUST_CHECK;
void limits_connection_end(struct limits *l);
/* Count an unfinished handshake; false when the source has `max` already (0: no limit). */
bool limits_handshake_begin(struct limits *l, uint32_t cell, uint32_t max) ATTR_MUST_CHECK;
void limits_handshake_end(struct limits *l, uint32_t cell);
/* A login failed: milliseconds to hold its answer back; UINT32_MAX: too many are held, close now. */
uint32_t limits_login_failed(struct limits *l, uint32_t cell, uint64_t now_ms);
/* An answer that was held back is out. */
void limits_delay_ended(struct limits *l, uint32_t cell);

#endif
