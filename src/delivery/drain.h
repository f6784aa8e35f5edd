/*
 * Reads the rings of daemons, living and dead, into what is wanted: the records file, and the spool from which control gets them. A record
 * leaves the ring when all of them have it. Knows no policy and what no record says.
 */
#ifndef EGRESS_DELIVERY_DRAIN_H
#define EGRESS_DELIVERY_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "control/record_ring.h"
#include "delivery/spool.h"
#include "net/loop.h"
#include "store/http.h"

struct drain;

struct drain_options {
	const char *records;     /* path; NULL or "": none; borrowed for the call, as all here */
	bool is_audit_required;  /* a full spool takes no more, so that the ring fills and connections are refused */
	const char *decisions;   /* where to post; NULL: nowhere, and no spool */
	const char *proxy;       /* our name there */
	struct http_options tls;
	const char *state;       /* the folder of the spool */
	uint64_t spool_bytes_max;
};

enum err drain_open(struct loop *loop, const struct drain_options *options, struct drain **out_drain) ATTR_MUST_CHECK;
/* What the rings hold is written first, as far as that needs no waiting. Accepts NULL. */
void drain_close(struct drain *d);
/* Of a new configuration: the records file and whether audit is required; the rest waits for a restart. */
void drain_set_options(struct drain *d, const struct drain_options *options);
void drain_reopen(struct drain *d);
/* Each second. */
void drain_tick(struct drain *d);

/* A daemon passed its ring (taken over) and the number under which we may read it. */
enum err drain_attach(struct drain *d, struct record_ring *ring, uint64_t number) ATTR_MUST_CHECK;
/* That daemon is gone; what its ring holds is not. */
void drain_detach(struct drain *d);
/* Is the daemon that is attached about to end? */
bool drain_is_daemon_draining(const struct drain *d);

struct drain_counts {
	uint64_t sent;         /* records that arrived where they belong: with control, or else in the file */
	uint64_t dropped;      /* lost: no room in the ring or the spool, nowhere to go, damaged */
	uint64_t repeats_lost; /* repetitions of denials that a daemon took with it */
	uint64_t post_failures;
	struct spool_counts spool; /* zeros without one */
	bool has_spool;
};
/* Is the records file out of reach (1)? */
size_t drain_failures(const struct drain *d);
void drain_count(const struct drain *d, struct drain_counts *out_counts);

#endif
