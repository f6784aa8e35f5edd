/* Editions of cells into etcd, each change as transactions that nobody else's change can slip into, and beats beside them. */
#ifndef EGRESS_SERVE_SERVE_ETCD_H
#define EGRESS_SERVE_SERVE_ETCD_H

#include "base/attr.h"
#include "base/err.h"
#include "net/loop.h"
#include "serve/serve_cell.h"
#include "store/etcd_client.h"

struct serve_etcd;

/* INVALID: a member, or half of a certificate or login that cannot be used. */
enum err serve_etcd_open(struct loop *loop, const struct etcd_client_options *options, struct serve_etcd **out_publisher) ATTR_MUST_CHECK;
/* Accepts NULL. What is in the store stays there. */
void serve_etcd_close(struct serve_etcd *p);
/* A cell has an edition; the first time it is taken up, and borrowed until close. INVALID, NO_MEMORY: it is not published. */
enum err serve_etcd_offer(struct serve_etcd *p, struct serve_cell *cell) ATTR_MUST_CHECK;
/* A cell has a beat. */
void serve_etcd_beat(struct serve_etcd *p, struct serve_cell *cell);

#endif
