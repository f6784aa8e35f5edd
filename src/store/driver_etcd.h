/* An etcd cluster, through its JSON gateway, as a source of frames. */
#ifndef EGRESS_STORE_DRIVER_ETCD_H
#define EGRESS_STORE_DRIVER_ETCD_H

#include "base/attr.h"
#include "base/err.h"
#include "net/loop.h"
#include "store/frames.h"
#include "store/http.h"

struct driver_etcd_options {
	const char *members;      /* "host:port,host:port": borrowed for the call; https where tls names anything, else http */
	const char *cell;         /* borrowed for the call */
	const char *user;         /* NULL or "": without authentication; borrowed for the call */
	const char *password;     /* borrowed for the call; kept until close */
	struct http_options tls;  /* borrowed for the call */
	uint64_t first_wait_ms;   /* before the store is asked for the first time */
};

/* INVALID: a member, a cell or half of a certificate pair that cannot be used. */
enum err driver_etcd_open(struct loop *loop, const struct driver_etcd_options *options, struct frames_source **out_source)
	ATTR_MUST_CHECK;

#endif
