/* The schemes of rules, once (contract section 1). */
#ifndef EGRESS_BASE_SCHEME_H
#define EGRESS_BASE_SCHEME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* symbol, word, default port (0: ports are mandatory), host may be an address */
#define SCHEMES(X)                     \
	X(HTTPS, "https", 443, false)  \
	X(HTTP, "http", 80, true)      \
	X(WS, "ws", 80, false)         \
	X(SSH, "ssh", 22, true)        \
	X(TCP, "tcp", 0, true)

#define SCHEMES_AS_ENUM(sym, word, port, addresses) SCHEME_##sym,
enum scheme { SCHEMES(SCHEMES_AS_ENUM) SCHEME_COUNT };
#undef SCHEMES_AS_ENUM

struct scheme_row {
	const char *word;
	uint16_t default_port;
	bool takes_addresses;
};

static inline const struct scheme_row *scheme_row(enum scheme s)
{
#define SCHEMES_AS_ROW(sym, word, port, addresses) [SCHEME_##sym] = { word, port, addresses },
	static const struct scheme_row rows[SCHEME_COUNT] = { SCHEMES(SCHEMES_AS_ROW) };
#undef SCHEMES_AS_ROW
	return &rows[s];
}

/* The scheme called `word` (lower case); false if there is none. */
static inline bool scheme_parse(struct text word, enum scheme *out_scheme)
{
	for (unsigned i = 0; i < SCHEME_COUNT; i++) {
		if (text_is(word, scheme_row((enum scheme)i)->word)) {
			*out_scheme = (enum scheme)i;
			return true;
		}
	}
	return false;
}

#endif
