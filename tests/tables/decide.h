/* What would a policy root decide? Compiles it as the sidecar does and judges as the daemon does, without either. */
#ifndef EGRESS_TESTS_TABLES_DECIDE_H
#define EGRESS_TESTS_TABLES_DECIDE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "decision/verdict.h"

struct decide_root; /* a compiled root and, if asked for, one more lease made up for a table */

/* Open the root; `lease_text` (NULL: none) is compiled beside its leases under the id "-". NULL with a message on standard error. */
struct decide_root *decide_open(const char *path, bool report_allowed, const char *lease_text);
void decide_close(struct decide_root *root);
/* Judge "scheme://host[:port]" for the lease; `addresses` is "" or a list with commas. False when the words make no sense. */
bool decide(const struct decide_root *root, const char *lease_id, const char *target, const char *addresses,
	    struct verdict *out_verdict);

#endif
