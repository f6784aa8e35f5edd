/*
 * Where policy comes from, seen by the rest of the sidecar: a driver says what is held now (all, then what differs), and beats while it can
 * vouch that this is still so. driver_file.c trusts this machine; driver_signed.c trusts signatures.
 */
#ifndef EGRESS_SOURCE_DRIVER_H
#define EGRESS_SOURCE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/sink.h"
#include "config/fault.h"
#include "net/loop.h"
#include "source/holding.h"
#include "source/sticky.h"

/* From the loop, or from driver_start. */
struct driver_events {
	/*
	 * What is held changed; the receipt is the base of the next holding. Anything but OK: it could not be taken, and all that is held is
	 * offered with the next beat (NOT_FOUND: at once, for its base is not what was taken last).
	 */
	enum err (*on_holding)(void *arg, const struct holding *holding, uint64_t *out_receipt);
	/* What was offered last was still right at `beat_ns` (clock_mono_ns), which lies before the confirmation began. */
	void (*on_beat)(void *arg, uint64_t beat_ns);
	/* Control was alive at `beat_ns`, but what it names is not what was offered last. */
	void (*on_missing)(void *arg, uint64_t beat_ns);
	/* Nothing may be believed (keyset ended, floors unreadable or unwritable), or it may again. */
	void (*on_halt)(void *arg, bool is_halted);
	/* At `mono_ns` of our clock it was at least `wall_ms`: so control says, and signs. */
	void (*on_time)(void *arg, uint64_t wall_ms, uint64_t mono_ns);
};

struct driver;

struct driver_ops {
	enum err (*start)(struct driver *d, const struct driver_events *events, void *arg);
	void (*close)(struct driver *d);
	bool (*print)(struct driver *d, const char *lease, uint8_t out_print[STICKY_PRINT_LEN]);
	void (*visit_faults)(struct driver *d, void (*visit)(void *arg, const struct fault *fault), void *arg);
	void (*figures)(struct driver *d, struct sink *out); /* NULL: it has none */
	void (*report)(struct driver *d, struct sink *out);  /* NULL: likewise */
};

/* Embedded as the first member of each driver. */
struct driver {
	const struct driver_ops *ops;
};

/* Begin: the first holding and beat may come before this returns. */
static inline enum err driver_start(struct driver *d, const struct driver_events *events, void *arg)
{
	return d->ops->start(d, events, arg);
}
/* Accepts NULL. No event comes after it. */
static inline void driver_close(struct driver *d)
{
	if (d != NULL)
		d->ops->close(d);
}
/* A digest of what a lease was read from; false when it cannot be told now. */
static inline bool driver_print(struct driver *d, const char *lease, uint8_t out_print[STICKY_PRINT_LEN])
{
	return d->ops->print(d, lease, out_print);
}
/* Everything that is wrong with what is held. */
static inline void driver_visit_faults(struct driver *d, void (*visit)(void *arg, const struct fault *fault), void *arg)
{
	d->ops->visit_faults(d, visit, arg);
}

/* Figures of its own in exposition format. */
static inline void driver_figures(struct driver *d, struct sink *out)
{
	if (d->ops->figures != NULL)
		d->ops->figures(d, out);
}

/* Members of its own for a status report: `,"name":value` each, or nothing. */
static inline void driver_report(struct driver *d, struct sink *out)
{
	if (d->ops->report != NULL)
		d->ops->report(d, out);
}

struct driver_file_options {
	const char *root;     /* borrowed for the call */
	const char *ceiling;  /* borrowed for the call; NULL: ceiling.policy in the root */
	bool report_allowed;
};

/*
 * A policy root on this machine, trusted for its owner and permissions. INVALID or DENIED with `faults` when the root or its ceiling is
 * not sound; SYSTEM without inotify.
 */
enum err driver_file_open(struct loop *loop, const struct driver_file_options *options, struct fault_list *faults,
			  struct driver **out_driver) ATTR_MUST_CHECK;

#endif
