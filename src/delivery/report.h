/*
 * Status reports to control: what this proxy runs, knows, holds and refuses, posted when that changes and each ten seconds. Knows how to
 * post, not what is said. Nothing depends on an answer: freshness comes from beats alone.
 */
#ifndef EGRESS_DELIVERY_REPORT_H
#define EGRESS_DELIVERY_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/sink.h"
#include "base/text.h"
#include "net/loop.h"
#include "store/http.h"

#define REPORT_MAX (64u << 10) /* bytes of a body */

struct report;

struct report_options {
	const char *urls;        /* "https://A,https://B": borrowed for the call, as all here */
	const char *proxy;       /* our name */
	struct http_options tls;
};

/* Can it be a part of a path as it is? */
bool report_is_name(const char *name);
/* INVALID: an address, a name or half of a certificate pair that cannot be used. */
enum err report_open(struct loop *loop, const struct report_options *options, struct report **out_report) ATTR_MUST_CHECK;
/* Accepts NULL. */
void report_close(struct report *r);
/* What there is to say now; posted if it is new or ten seconds have gone by, and none is under way. Call each second and on changes. */
void report_say(struct report *r, struct text body);
/* The name that was given. */
const char *report_proxy(const struct report *r);
/* Reports that were taken, and that were not. */
uint64_t report_sent(const struct report *r);
uint64_t report_failed(const struct report *r);

/* Write text as a JSON string; bytes outside printable ASCII become '?'. */
void report_string(struct sink *out, const char *text);

#endif
