/* What a proxy asks a server of documents for: the target of its request, and the few fields that matter. Strict, pure, hostile: fuzzed. */
#ifndef EGRESS_SERVE_SERVE_TARGET_H
#define EGRESS_SERVE_SERVE_TARGET_H

#include <stdbool.h>

#include "base/attr.h"
#include "base/text.h"
#include "document/lease_doc.h"
#include "serve/serve_cell.h"

#define SERVE_TARGET_KEY_MAX 128 /* characters of an idempotency key */
#define SERVE_TARGET_WAIT_MAX_S 30

enum serve_route {
	SERVE_ROUTE_STREAM,    /* /v1/cells/{cell}/stream */
	SERVE_ROUTE_STATUS,    /* /v1/proxies/{proxy}/status */
	SERVE_ROUTE_DECISIONS, /* /v1/decisions */
};

struct serve_target {
	enum serve_route route;
	char name[LEASE_DOC_ID_MAX + 1];   /* of the cell or the proxy, decoded; "" when the route has none */
	char cursor[SERVE_CURSOR_MAX + 1]; /* of a stream; "": from the start */
};

enum serve_target_fault { SERVE_TARGET_GOOD, SERVE_TARGET_UNKNOWN, SERVE_TARGET_MALFORMED };

/* Read an origin-form target. UNKNOWN: nothing of ours is there; MALFORMED: it is, but a name or the query is not as it must be. */
enum serve_target_fault serve_target_read(struct text target, struct serve_target *out_target) ATTR_MUST_CHECK;
/* The seconds of "wait=N" in a Prefer field (RFC 7240), at most SERVE_TARGET_WAIT_MAX_S; false: it asks for no such thing. */
bool serve_target_wait(struct text prefer, unsigned *out_wait_s) ATTR_MUST_CHECK;
/* The value of an Idempotency-Key field, with quotes or without; false: it cannot be one. */
bool serve_target_key(struct text value, char out_key[SERVE_TARGET_KEY_MAX + 1]) ATTR_MUST_CHECK;

#endif
