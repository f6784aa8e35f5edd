/* The driver of signed documents, whatever source of frames they come from. */
#ifndef EGRESS_SOURCE_DRIVER_SIGNED_H
#define EGRESS_SOURCE_DRIVER_SIGNED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "config/fault.h"
#include "net/loop.h"
#include "source/driver.h"
#include "store/frames.h"

struct driver_signed_options {
	struct frames_source *source; /* taken over, also on failure */
	const char *cell;             /* the rest is borrowed for the call */
	const char *ceiling;          /* path */
	const char *keys;             /* path of the root's public keys */
	const char *state;            /* folder of the floors */
	uint64_t refuse_after_ms;
	bool report_allowed;
};

/* INVALID with `faults` when keys or ceiling are not sound, SYSTEM when the state folder is not there. */
enum err driver_signed_open(struct loop *loop, const struct driver_signed_options *options, struct fault_list *faults,
			    struct driver **out_driver) ATTR_MUST_CHECK;

#endif
