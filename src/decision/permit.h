/*
 * The address and port a connect is allowed for, and under which lease state. Nothing else can reach connect(2); only
 * policy/match.c makes one. A plain value; it dies when its generation does.
 */
#ifndef EGRESS_DECISION_PERMIT_H
#define EGRESS_DECISION_PERMIT_H

#include <stdint.h>

#include "base/addr.h"

struct permit {
	struct endpoint to;
	uint32_t slot;       /* of the lease in the control page */
	uint32_t generation; /* of that slot when it was judged */
	uint64_t snapshot;   /* version it was judged under */
};

#endif
