/*
 * The payload of `egress.lease/1` and `egress.ruleset/1` as values: every key known, every range checked. Rules stay text with their
 * pointer; the compiler reads them. Knows no signature, no file and no clock.
 */
#ifndef EGRESS_DOCUMENT_LEASE_DOC_H
#define EGRESS_DOCUMENT_LEASE_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "document/json.h"

#define LEASE_DOC_ID_MAX 64      /* characters of a lease id, and of tenant, run, class, listener */
#define LEASE_DOC_RULES_MAX 65536
#define LEASE_DOC_RULESETS_MAX 64
#define LEASE_DOC_SOURCES_MAX 64
#define LEASE_DOC_TOKENS_MAX 16
#define LEASE_DOC_PLACES_MAX 64  /* countries, and AS numbers */
#define LEASE_DOC_NOTE_MAX 256   /* bytes */
#define LEASE_DOC_PATTERN_MAX 512

enum lease_doc_state { LEASE_DOC_ACTIVE, LEASE_DOC_SUSPENDED, LEASE_DOC_REVOKED };
enum lease_doc_mode { LEASE_DOC_MODE_UNKNOWN, LEASE_DOC_DENY_ALL, LEASE_DOC_ALLOWLIST, LEASE_DOC_PROVISIONING };
enum lease_doc_scope { LEASE_DOC_SCOPE_UNSAID, LEASE_DOC_SCOPE_UNDECLARED, LEASE_DOC_SCOPE_NONE, LEASE_DOC_SCOPE_DECLARED };
enum lease_doc_pin { LEASE_DOC_PIN_UNSAID, LEASE_DOC_PIN_CONNECTION, LEASE_DOC_PIN_TTL, LEASE_DOC_PIN_LEASE };
enum { LEASE_DOC_BY_LISTENER = 1, LEASE_DOC_BY_SOURCE = 2, LEASE_DOC_BY_TOKEN = 4 };

struct lease_doc_token {
	const char *id; /* "" when it has none */
	uint8_t sha256[32];
	uint64_t exp_ms; /* 0: with the lease */
};

/* Places of one rule or of the lease; NULL and 0 when none are said. */
struct lease_doc_places {
	const char (*countries)[3]; /* two capital letters */
	size_t country_count;
	const uint32_t *asns;
	size_t asn_count;
};

struct lease_doc_rule {
	const char *pointer; /* to the rule's "allow" or "deny" */
	const char *id, *note; /* "" when absent */
	bool is_deny;
	const char *pattern; /* as written */
	enum lease_doc_pin pin;
	bool ech_refuse;
	bool report;
	struct lease_doc_places places;
};

/* The numbers of limits.def; 0: not said. */
struct lease_doc_limits {
#define LIMIT(name, least, most) uint64_t name;
#include "document/limits.def"
#undef LIMIT
};

struct lease_doc {
	uint64_t epoch, rev;      /* 0 when not said (local) */
	const char *cell;         /* "" likewise */
	const char *lease;
	enum lease_doc_state state;
	uint64_t nbf_ms, exp_ms;  /* 0: no bound */
	const char *tenant, *run, *environment_class; /* "" when absent */

	unsigned require;         /* LEASE_DOC_BY_…, never 0 */
	const char *listener;     /* "" when absent */
	const struct prefix *sources;
	size_t source_count;
	const struct lease_doc_token *tokens;
	size_t token_count;

	enum lease_doc_mode mode;
	const char *mode_text;    /* as written */
	enum lease_doc_scope claimed_scope;
	bool report;              /* enforcement "report" */
	const uint8_t (*rulesets)[32]; /* SHA-256 of ruleset payloads, in order */
	size_t ruleset_count;
	const struct lease_doc_rule *rules;
	size_t rule_count;

	struct lease_doc_limits limits;
	bool resolve, why, names_only, ech_refuse; /* options; all off when absent */
	struct lease_doc_places places;
};

struct ruleset_doc {
	const struct lease_doc_rule *rules;
	size_t rule_count;
};

/* Who vouches for a document: decides which keys may be left out. */
enum lease_doc_trust { LEASE_DOC_SIGNED, LEASE_DOC_LOCAL };

/*
 * Read the bare payload; everything in *out_doc lives in the faults' arena. INVALID with faults. The id of a faulty lease is found with
 * lease_doc_id, so that it can be quarantined.
 */
enum err lease_doc_read(struct text payload, enum lease_doc_trust trust, struct json_faults *faults,
			struct lease_doc *out_doc) ATTR_MUST_CHECK;
/* Only the lease id of a payload that parses as JSON; false if there is none. Copies at most LEASE_DOC_ID_MAX characters. */
bool lease_doc_id(struct text payload, char out_id[LEASE_DOC_ID_MAX + 1]) ATTR_MUST_CHECK;
/*
 * Only how the guests of a faulty lease arrive, if that part of it is sound: then they can be told what is wrong. The rest of *out_doc is a
 * suspended lease that allows nothing. Lives in the faults' arena.
 */
bool lease_doc_arrival(struct text payload, struct json_faults *faults, struct lease_doc *out_doc) ATTR_MUST_CHECK;
/* Only the revision that a payload claims, however faulty the rest (but it must be JSON); false if there is none. */
bool lease_doc_rev(struct text payload, uint64_t *out_rev) ATTR_MUST_CHECK;
enum err ruleset_doc_read(struct text payload, struct json_faults *faults, struct ruleset_doc *out_doc) ATTR_MUST_CHECK;
/* May `id` name a lease, tenant, run, class or listener? Letters, digits, and after the first - _ . : too; 1 to LEASE_DOC_ID_MAX characters. */
bool lease_doc_id_is_valid(struct text id);

#endif
