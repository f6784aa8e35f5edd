/* Every reason, once: enum, stable word, SOCKS reply, how it reaches the client, whose fault, sentence. Decides nothing. */
#ifndef EGRESS_DECISION_REASON_H
#define EGRESS_DECISION_REASON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/text.h"

enum reason {
#define REASON(sym, word, reply, via, fault, text) REASON_##sym,
#include "decision/reason.def"
#undef REASON
	REASON_COUNT
};

enum reason_via { REASON_VIA_NONE, REASON_VIA_REPLY, REASON_VIA_METHOD, REASON_VIA_AUTH, REASON_VIA_CLOSE, REASON_VIA_STREAM };
enum reason_fault {
	REASON_FAULT_NOBODY,
	REASON_FAULT_GUEST,
	REASON_FAULT_POLICY,
	REASON_FAULT_CONTROL,
	REASON_FAULT_UPSTREAM,
	REASON_FAULT_LOCAL,
};

/* The stable word: the same in record, log, metric, tool and document. Total: an impossible value gives "internal". */
const char *reason_word(enum reason r);
const char *reason_text(enum reason r);
uint8_t reason_socks_reply(enum reason r);
enum reason_via reason_via(enum reason r);
enum reason_fault reason_fault(enum reason r);
/* The one that comes first in the list; ALLOWED yields to every other. */
enum reason reason_stronger(enum reason a, enum reason b);
bool reason_parse(struct text word, enum reason *out_reason) ATTR_MUST_CHECK;

#endif
