/*
 * The record's one encoding: a line of JSON in the shape of OCSF 1.8.0 Network Activity (4001) with the security_control
 * profile, keys in fixed order; and a fast reader of just this format for replay and suggest.
 */
#ifndef EGRESS_DECISION_RECORD_JSON_H
#define EGRESS_DECISION_RECORD_JSON_H

#include <stddef.h>

#include "base/attr.h"
#include "base/cursor.h"
#include "decision/record.h"

#define RECORD_JSON_MAX 6144 /* bytes of the longest line, newline included */

/* Who observed: set once at boot. */
struct record_observer {
	const char *proxy_uid; /* borrowed for the call */
	const char *version;
};

/* Write one line with its newline; returns its length, 0 if it does not fit (never for RECORD_JSON_MAX). */
size_t record_json_write(const struct record *r, const struct record_observer *observer, char *out_line,
			 size_t cap);
/* Read a line that record_json_write wrote. BAD for anything else; fields not in the line are zero. */
enum parsed record_json_read(const char *line, size_t len, struct record *out_record) ATTR_MUST_CHECK;

#endif
