/*
 * Batches of the spool to control: POST /v1/decisions, gzip NDJSON, one at a time and again under the same key until it is acknowledged.
 * Knows how to post, not what a record says.
 */
#ifndef EGRESS_DELIVERY_UPLOAD_H
#define EGRESS_DELIVERY_UPLOAD_H

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "delivery/spool.h"
#include "net/loop.h"
#include "store/http.h"

struct upload;

struct upload_options {
	const char *urls;  /* "https://A,https://B": borrowed for the call, as all here */
	const char *proxy; /* our name, in the key */
	struct http_options tls;
};

/* `spool` is borrowed until close. INVALID: an address, a name or half of a certificate pair that cannot be used. */
enum err upload_open(struct loop *loop, const struct upload_options *options, struct spool *spool, struct upload **out_upload) ATTR_MUST_CHECK;
/* Accepts NULL. */
void upload_close(struct upload *u);
/* Post what is due. Call often: it costs nothing while there is nothing. */
void upload_go_on(struct upload *u);
/* Records that control acknowledged; posts that it did not. */
uint64_t upload_sent(const struct upload *u);
uint64_t upload_failed(const struct upload *u);

#endif
