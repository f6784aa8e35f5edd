/* Who is asking: the identity part of a lease as sessions and records need it. A plain value that copies. */
#ifndef EGRESS_LEASE_LEASE_H
#define EGRESS_LEASE_LEASE_H

#include <stdint.h>

#include "base/addr.h"
#include "decision/record.h"
#include "image/layout.h"

struct lease {
	char id[RECORD_LEASE_MAX + 1];
	char tenant[RECORD_WORD_MAX + 1], run[RECORD_WORD_MAX + 1], environment_class[RECORD_WORD_MAX + 1];
	uint64_t rev;
	uint64_t nbf_ms, exp_ms; /* wall time; 0: no bound */
	enum layout_lease_state state;
	enum layout_scope scope, claimed_scope; /* claimed 0: not said */
	uint32_t options;        /* LAYOUT_OPTION_* */
	struct layout_limits limits; /* as written: 0 means default */
};

/* How a guest arrived. */
struct lease_arrival {
	const char *listener;    /* borrowed: name of the listener */
	struct endpoint source;  /* family NONE for unix sockets */
};

#endif
