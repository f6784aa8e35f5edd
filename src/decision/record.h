/* One request's story: who, what was asked, verdict per phase, timings, bytes, end reason. Filled by proxy, printed elsewhere. */
#ifndef EGRESS_DECISION_RECORD_H
#define EGRESS_DECISION_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "decision/reason.h"
#include "decision/verdict.h"
#include "facts/facts.h"

#define RECORD_ID_LEN 26      /* Crockford base32, time-ordered: 48 bits of wall milliseconds and 80 random bits */
#define RECORD_LEASE_MAX 64
#define RECORD_TAG_MAX 32
#define RECORD_WORD_MAX 64

enum record_event {
	RECORD_DECISION, /* the answer to a request, or a later refusal of its stream */
	RECORD_CLOSE,    /* an allowed connection ended by itself, a limit or an error */
	RECORD_CUT,      /* an allowed connection was closed by a change of lease, policy or control */
};

/* A lease's network scope; numbered as layout_scope is. */
enum record_scope { RECORD_SCOPE_UNSAID, RECORD_SCOPE_UNDECLARED, RECORD_SCOPE_NONE, RECORD_SCOPE_DECLARED };

struct record {
	enum record_event event;
	char id[RECORD_ID_LEN + 1];         /* of the decision; close and cut carry the id of theirs */
	uint64_t wall_ms;                   /* when the event happened */
	uint64_t sequence;                  /* set by the stream that ships it: gaps are losses */

	char lease[RECORD_LEASE_MAX + 1];   /* "" while unknown */
	char tenant[RECORD_WORD_MAX + 1], run[RECORD_WORD_MAX + 1], environment_class[RECORD_WORD_MAX + 1];
	uint64_t rev;                       /* lease revision */
	enum record_scope scope, claimed_scope; /* that follows from the lease's mode; that control claims */
	char tag[RECORD_TAG_MAX + 1];       /* what the guest wrote behind its lease id */
	char listener[RECORD_WORD_MAX + 1]; /* where it arrived */
	struct endpoint source;             /* family NONE for unix sockets */
	uint8_t worker;

	bool target_known;
	struct target target;               /* as asked, canonical */
	char target_raw[TARGET_TEXT_MAX];   /* escaped bytes of a name that was not one */
	uint8_t scheme_plus_one;            /* 0: unknown, else enum scheme + 1 */
	char server_name[DNAME_MAX + 1];    /* of the ClientHello or Host, escaped; "" if none */
	bool ech;
	struct endpoint upstream;           /* dialled; family NONE if none */
	struct addr refused_addr;           /* the address that decided a refusal; family NONE if none */
	enum addr_class addr_class;         /* of refused_addr */

	enum facts_phase phase;             /* the phase that decided */
	struct verdict verdict;             /* of that phase; verdict.reason is the record's reason */
	bool nat64_dropped;                 /* undeclared NAT64 answers stood beside a passing A set */
	bool pin_failed;                    /* the pinned addresses failed; the name was asked for and judged again */
	char redirect_from[RECORD_ID_LEN + 1];
	bool inferred;
	char redirect_to[RULE_TEXT_MAX];    /* refused redirect target, escaped */

	uint32_t judge_us, dns_ms, connect_ms;
	uint64_t duration_ms;               /* close, cut */
	uint64_t bytes_up, bytes_down;      /* close, cut: relayed to the origin, to the guest */
	uint32_t count;                     /* folded repetitions; 0 means 1 */
	uint64_t first_wall_ms;             /* of the first folded one */
};

/* Make a time-ordered id from wall time and 10 random bytes. */
void record_make_id(uint64_t wall_ms, const uint8_t random[10], char out_id[RECORD_ID_LEN + 1]);

#endif
