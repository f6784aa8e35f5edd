/* A control plane over HTTPS as a source of frames. */
#ifndef EGRESS_STORE_DRIVER_HTTPS_H
#define EGRESS_STORE_DRIVER_HTTPS_H

#include "base/attr.h"
#include "base/err.h"
#include "net/loop.h"
#include "store/frames.h"
#include "store/http.h"

struct driver_https_options {
	const char *urls;        /* "https://A,https://B/base": borrowed for the call */
	const char *cell;        /* borrowed for the call */
	struct http_options tls; /* borrowed for the call */
	uint64_t first_wait_ms;  /* before the store is asked for the first time */
};

/* INVALID: an URL, a cell or half of a certificate pair that cannot be used. */
enum err driver_https_open(struct loop *loop, const struct driver_https_options *options, struct frames_source **out_source)
	ATTR_MUST_CHECK;

#endif
