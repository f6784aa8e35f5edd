/* The order in which the daemon starts and stops: a table of steps; stopping runs it backwards from where starting got to. */
#ifndef EGRESS_DAEMON_BOOT_H
#define EGRESS_DAEMON_BOOT_H

#include "base/attr.h"
#include "base/err.h"
#include "daemon/daemon.h"

/* Run all steps. On failure says which one and why, stops what was started, and returns its error. */
enum err boot_start(struct daemon *d) ATTR_MUST_CHECK;
void boot_stop(struct daemon *d);

#endif
