/* The sidecar's struct, shared by sidecar.c (order of things), sidecar_commands.c (what tools ask) and status.c (figures). */
#ifndef EGRESS_SIDECAR_SIDECAR_INTERNAL_H
#define EGRESS_SIDECAR_SIDECAR_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/log.h"
#include "control/channel.h"
#include "delivery/drain.h"
#include "delivery/report.h"
#include "lease/gate.h"
#include "sidecar/freshness.h"
#include "sidecar/hand_over.h"
#include "sidecar/publish.h"
#include "sidecar/sidecar.h"

#define STATUS_TEXT_MAX 16384
#define STICKY_ID_MAX 64

/* Which state of a file was read. */
struct file_mark {
	uint64_t device, inode;
	int64_t size, mtime_s, mtime_ns;
};

struct sidecar {
	struct loop *loop;       /* borrowed */
	struct config *config;   /* counted */
	const char *config_path; /* borrowed for good */
	struct file_mark marks[2];
	struct driver *driver;       /* owned */
	struct sticky *sticky;       /* owned */
	struct publish *publish;     /* owned */
	struct hand_over *hand_over; /* owned */
	struct report *report;       /* owned; NULL: none are wanted */
	struct drain *drain;         /* owned */
	struct freshness freshness;
	enum gate_control state_said; /* in the log */

	struct channel *channel;     /* owned; NULL while not connected */
	struct gate *gate;           /* owned; NULL before WELCOME */
	bool is_named_missing;       /* the last beat names what was not offered: adopting what was is no match */
	uint64_t listeners_serial;   /* of publish, whose names were handed over; 0: again */
	bool has_matched;            /* since WELCOME: the page's deadlines are ours to write */
	struct loop_timer dial, tick, leave;
	unsigned leave_looks;        /* since sidecar_leave */
	struct drain_counts told;    /* of records, in the last report */
	uint64_t told_at_ms;
	uint64_t backoff_ms;
	struct list calls;           /* of struct command_call, borrowed until done: wait for REVOKED */

	uint64_t reconnects, refusals, config_failures;
	struct log_limit complaint;
};

/* A command that the daemon forwarded. */
void sidecar_run_command(struct sidecar *s, const struct ctl_msg *msg);
/* The publish event of the same name. */
void sidecar_on_revoked(void *arg, const char *lease, bool is_known, uint64_t closed);
/* The channel goes away: end what waits for an answer. */
void sidecar_forget_calls(struct sidecar *s);
/* What a status report says now; returns its length, 0: it has no room. */
size_t status_report(struct sidecar *s, char *out_text, size_t cap);
/* Our own figures in exposition format; returns their length. */
size_t status_figures(const struct sidecar *s, char *out_text, size_t cap);

#endif
