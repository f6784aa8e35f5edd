/*
 * What proxies report, kept in a folder for whoever looks: the last status of each and all of them in a row, and decision records as they
 * came, each batch once. Bounded; blocking writes of at most one batch.
 *
 *   status/<proxy>.json   the last report          status.ndjson, status.1.ndjson       all reports, the newest 128 MB
 *   decisions.ndjson.gz   records (gzip members in a row)   decisions.<n>.ndjson.gz     full ones: read them and take them away
 *   decisions.keys        end of each batch, its key and who sent it
 */
#ifndef EGRESS_SERVE_SERVE_REPORTS_H
#define EGRESS_SERVE_SERVE_REPORTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"

#define SERVE_REPORTS_STATUS_MAX (64u << 10)
#define SERVE_REPORTS_BATCH_MAX (8u << 20)

struct serve_reports;

struct serve_reports_options {
	const char *folder;    /* borrowed for the call; it is there */
	uint64_t max_bytes;    /* of decision records, all files together */
	uint64_t file_bytes;   /* of one file, then the next one begins */
};

/* SYSTEM (errno), NO_MEMORY. Cuts off what a crash left unconfirmed. */
enum err serve_reports_open(const struct serve_reports_options *options, struct serve_reports **out_reports) ATTR_MUST_CHECK;
/* Accepts NULL. */
void serve_reports_close(struct serve_reports *r);

/* `proxy` is a valid id, `client` printable without quotes. INVALID: no JSON; LIMIT: more proxies than are kept; SYSTEM. */
enum err serve_reports_status(struct serve_reports *r, const char *proxy, const char *client, uint64_t wall_ms, struct text body)
	ATTR_MUST_CHECK;
/* OK: it is on disk; EXISTS: it was before, under this key of this client; INVALID: not gzip; LIMIT: there is no room; SYSTEM. */
enum err serve_reports_decisions(struct serve_reports *r, const char *key, const char *client, struct text body) ATTR_MUST_CHECK;

#endif
