/* A report for a tool: the same question asked of every worker on its own thread, the answers printed in order of workers. */
#ifndef EGRESS_DAEMON_REPORT_H
#define EGRESS_DAEMON_REPORT_H

#include <stdbool.h>

#include "base/buf.h"
#include "control/command.h"
#include "daemon/daemon.h"

#define REPORT_BYTES_MAX (16u << 20) /* of one worker */

/* What a worker is asked: append lines to `out`. `lease` is "" for all. Runs on the worker's thread. */
struct report_question {
	bool json;
	char lease[RECORD_LEASE_MAX + 1];
	struct buf *out;
};
typedef void report_fn(struct worker *w, const struct report_question *q);

/* Ask all workers and answer `call` when they have; `heading` (NULL: none) is printed before text answers. */
void report_start(struct daemon *d, struct command_call *call, report_fn *fn, const char *heading);

/* The questions. */
void report_sessions(struct worker *w, const struct report_question *q);
void report_pins(struct worker *w, const struct report_question *q);
void report_flush_pins(struct worker *w, const struct report_question *q);
void report_why(struct worker *w, const struct report_question *q);

#endif
