/* Cells and reports over HTTPS: what driver_https asks for and what report and upload send. */
#ifndef EGRESS_SERVE_SERVE_HTTP_H
#define EGRESS_SERVE_SERVE_HTTP_H

#include "base/addr.h"
#include "base/attr.h"
#include "base/err.h"
#include "net/loop.h"
#include "serve/serve_cell.h"
#include "serve/serve_reports.h"
#include "serve/serve_tls.h"

struct serve_http;

struct serve_http_options {
	struct endpoint at;
	struct serve_tls_options tls;
	bool only_named_cells;         /* a client reads the cell that its certificate names and no other */
	unsigned clients_max;
	struct serve_reports *reports; /* borrowed until close; NULL: none are taken */
};

/* Listens. INVALID (TLS), EXISTS (the port), SYSTEM, with a sentence. */
enum err serve_http_open(struct loop *loop, const struct serve_http_options *options, char out_reason[SERVE_TLS_REASON_MAX],
			 struct serve_http **out_server) ATTR_MUST_CHECK;
/* Tells readers that it goes. Accepts NULL. */
void serve_http_close(struct serve_http *s);
/* Read certificates again; on failure, with a sentence, those before stay. Connections that run go on. */
enum err serve_http_renew(struct serve_http *s, const struct serve_tls_options *tls, char out_reason[SERVE_TLS_REASON_MAX]) ATTR_MUST_CHECK;

/* A cell has an edition, or a beat; the first time it is taken up. NO_MEMORY. */
enum err serve_http_offer(struct serve_http *s, struct serve_cell *cell) ATTR_MUST_CHECK;
enum err serve_http_beat(struct serve_http *s, struct serve_cell *cell) ATTR_MUST_CHECK;

#endif
