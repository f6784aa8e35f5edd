/*
 * The sidecar behind the sandbox: which folders its configuration needs, and what must belong to whom it becomes. Prepared while it may
 * still be root, entered before anything that comes from outside is read.
 */
#ifndef EGRESS_SIDECAR_CONFINE_H
#define EGRESS_SIDECAR_CONFINE_H

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "config/load.h"

/*
 * Make the state folder when only it is missing; as root that `will_enter`, give it and the records file to whom we
 * become. SYSTEM (errno) with a line in the log, DENIED and NOT_FOUND for the user.
 */
enum err confine_prepare(const struct config *config, bool will_enter) ATTR_MUST_CHECK;
/* Enter the sandbox with what `config`, read from `config_path`, needs. Folders that are not there now stay out of reach. */
enum err confine_enter(const struct config *config, const char *config_path) ATTR_MUST_CHECK;

#endif
