/* Which schemes the daemon can hold a stream to. A rule of another scheme would be a fault of its lease: better refused than not enforced. */
#ifndef EGRESS_COMPILER_ENFORCED_H
#define EGRESS_COMPILER_ENFORCED_H

#include <stdbool.h>

#include "base/scheme.h"

static inline bool enforced_scheme(enum scheme s)
{
	static const bool enforced[SCHEME_COUNT] = {
		[SCHEME_HTTPS] = true,
		[SCHEME_HTTP] = true,
		[SCHEME_WS] = true,
		[SCHEME_SSH] = true,
		[SCHEME_TCP] = true,
	};

	return (unsigned)s < SCHEME_COUNT && enforced[s];
}

#endif
