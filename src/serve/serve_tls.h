/*
 * The server's side of TLS 1.2 and later on sockets that never block, with the certificates of clients where they are asked for. The only
 * includer of libssl. Knows no request.
 */
#ifndef EGRESS_SERVE_SERVE_TLS_H
#define EGRESS_SERVE_SERVE_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"

#define SERVE_TLS_REASON_MAX 256
#define SERVE_TLS_NAME_MAX 64 /* characters of a peer's name */

struct serve_tls;

/* Paths, borrowed for the call. */
struct serve_tls_options {
	const char *certificate; /* ours, then what leads to its authority */
	const char *key;
	const char *client_ca;   /* NULL: clients show no certificate; else who shows none of these authorities is not spoken to */
};

/* INVALID with a sentence: a file that cannot be read or used. */
enum err serve_tls_open(const struct serve_tls_options *options, char out_reason[SERVE_TLS_REASON_MAX], struct serve_tls **out_tls)
	ATTR_MUST_CHECK;
/* Connections that run go on. Accepts NULL. */
void serve_tls_close(struct serve_tls *t);

struct serve_tls_link;

/* `fd` stays the caller's. NO_MEMORY. */
enum err serve_tls_accept(struct serve_tls *t, int fd, struct serve_tls_link **out_link) ATTR_MUST_CHECK;
/* Says goodbye if that does not wait. Accepts NULL. */
void serve_tls_end(struct serve_tls_link *l);

/* How one step ended: bytes moved; wait until the socket is readable, or writable; over, whatever the reason. */
enum serve_tls_step { SERVE_TLS_MOVED, SERVE_TLS_WANTS_READ, SERVE_TLS_WANTS_WRITE, SERVE_TLS_OVER };
/* The handshake is part of the first steps. */
enum serve_tls_step serve_tls_read(struct serve_tls_link *l, void *out_bytes, size_t room, size_t *out_len);
enum serve_tls_step serve_tls_write(struct serve_tls_link *l, const void *bytes, size_t len, size_t *out_len);

/* Why the handshake failed, once a step said OVER: static text; NULL: it did not, or the peer just went. */
const char *serve_tls_refusal(const struct serve_tls_link *l);
/* The common name of the peer's certificate in printable ASCII; "" without one. After the handshake. */
void serve_tls_peer(const struct serve_tls_link *l, char out_name[SERVE_TLS_NAME_MAX + 1]);
/* Does the peer's certificate name this cell: as its common name, or by a URI that ends in "/cell/<cell>"? */
bool serve_tls_names_cell(const struct serve_tls_link *l, const char *cell) ATTR_MUST_CHECK;

#endif
