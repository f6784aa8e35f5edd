/*
 * The compiled form of policy: segments of plain little-endian tables found by offset, no pointers. Written by the compiler, verified
 * once by image/segment, read in place by lease, policy and the tools. The same input gives the same bytes.
 *
 * A segment is one of: RULESET (rules, addressed by the SHA-256 of the segment), LEASE (who is asking, and its own rules), CEILING (the
 * operator's rules and exceptions), ROOT (which leases there are, or which differ from an earlier root). Offsets are bytes from the segment's start, 8-aligned; tables that are
 * not empty follow each other in the order of enum layout_table; an empty table has offset and count 0; reserved fields are 0.
 */
#ifndef EGRESS_IMAGE_LAYOUT_H
#define EGRESS_IMAGE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LAYOUT_MAGIC 0x31736765u /* "egs1" */
#define LAYOUT_ABI 2
#define LAYOUT_ID_LEN 32 /* SHA-256 of the whole segment */
#define LAYOUT_SEGMENT_MAX (64u << 20)
#define LAYOUT_PROBE_MAX 64

enum layout_kind { LAYOUT_RULESET = 1, LAYOUT_LEASE = 2, LAYOUT_CEILING = 3, LAYOUT_ROOT = 4 };

/* Tables of a segment in their order, and what a record of each is. A kind that has no use for one leaves it empty. */
#define LAYOUT_TABLES(TABLE)                                                                                                      \
	TABLE(STRINGS, char)                            /* all text, each followed by a zero byte */                              \
	TABLE(RULES, struct layout_rule)                /* in source order */                                                     \
	TABLE(PORTS, struct layout_ports)                                                                                         \
	TABLE(PLACES, struct layout_place)                                                                                        \
	TABLE(LABEL_SLOTS, struct layout_label_slot)    /* open addressing, a power of two or empty */                            \
	TABLE(LABEL_ENTRIES, struct layout_label_entry)                                                                           \
	TABLE(PREFIX_GROUPS, struct layout_prefix_group) /* ascending by family then length; they cover PREFIXES in order */      \
	TABLE(PREFIXES, struct layout_prefix)           /* sorted inside its group */                                             \
	TABLE(RULE_REFS, uint32_t)                      /* rule numbers, ascending within each use */                             \
	TABLE(ANY_REFS, uint32_t)                       /* rules with host ANY */                                                 \
	TABLE(LEASES, struct layout_lease)              /* LEASE: exactly one */                                                  \
	TABLE(SOURCES, struct layout_source)            /* LEASE */                                                               \
	TABLE(TOKENS, struct layout_token)              /* LEASE */                                                               \
	TABLE(RULESETS, struct layout_id)               /* LEASE: shared rulesets, in order */                                    \
	TABLE(EXCEPTIONS, struct layout_exception)      /* CEILING */                                                             \
	TABLE(ROOT_LEASES, struct layout_root_lease)    /* ROOT: sorted by id text */                                             \
	TABLE(ROOT_INFO, struct layout_root)            /* ROOT: exactly one */

enum layout_table {
#define TABLE(name, record) LAYOUT_##name,
	LAYOUT_TABLES(TABLE)
#undef TABLE
	LAYOUT_TABLE_COUNT,
};

struct layout_span { /* where a table lies */
	uint32_t offset;
	uint32_t count; /* records */
};

struct layout_header {
	uint32_t magic;
	uint16_t abi;
	uint16_t kind;  /* enum layout_kind */
	uint32_t size;  /* bytes of the whole segment */
	uint32_t reserved; /* 0 */
	uint64_t seed0, seed1; /* hash key of the label index; from the content, so that output is deterministic */
	struct layout_span table[LAYOUT_TABLE_COUNT];
};

/* Text in LAYOUT_STRINGS: offset of its first byte from the table's start; terminated there. Empty text is all zeros. */
struct layout_text {
	uint32_t offset;
	uint32_t len;
};

enum { /* layout_rule.flags */
	LAYOUT_RULE_DENY = 1 << 0,
	LAYOUT_RULE_REPORT = 1 << 1,      /* report-only rule */
	LAYOUT_RULE_ECH_REFUSE = 1 << 2,
	LAYOUT_RULE_SCHEME_KNOWN = 1 << 3,
};

struct layout_rule {
	struct layout_text id;    /* "" when it has none */
	struct layout_text note;
	struct layout_text origin; /* where it came from, for people: preset or ruleset name, "" for the lease's own */
	uint32_t line;            /* in its source file; 0 when it came from JSON */
	uint32_t number;          /* 1-based position in its source */
	uint8_t flags;
	uint8_t scheme;           /* enum scheme, valid with SCHEME_KNOWN */
	uint8_t host;             /* enum rule_host */
	uint8_t pin;              /* enum rule_pin */
	uint8_t family, prefix_len; /* PREFIX: 4 or 6, bits */
	uint16_t reserved;
	uint8_t octets[16];       /* PREFIX */
	struct layout_text name;  /* NAME, WILDCARD (without "*.") */
	/* Into LAYOUT_PORTS: offset is the first record's number; ascending, disjoint; none means all ports (deny, ANY): an allow with a scheme
	 * has its default port spelled out. */
	struct layout_span ports;
	struct layout_span places; /* into LAYOUT_PLACES, likewise */
};

struct layout_ports {
	uint16_t first, last;
};

struct layout_place { /* either a country or an AS number */
	uint8_t country[2]; /* zeros for an AS number */
	uint16_t reserved;
	uint32_t asn;
};

struct layout_label_slot {
	uint32_t tag;   /* upper half of the hash */
	uint32_t entry; /* number + 1; 0: free */
};

/*
 * Open addressing: the hash of a name is hash_bytes under (seed0, seed1) over its text. Its entry stands in the first slot that was free,
 * counted upwards (and around) from home, and never LAYOUT_PROBE_MAX or more slots from it.
 */
static inline uint32_t layout_label_home(uint64_t hash, uint32_t slot_count)
{
	return (uint32_t)hash & (slot_count - 1);
}
static inline uint32_t layout_label_tag(uint64_t hash)
{
	return (uint32_t)(hash >> 32);
}

/*
 * One host text that exact or wildcard rules name. Rule numbers in LAYOUT_RULE_REFS and LAYOUT_ANY_REFS count from 0; every rule stands
 * in exactly one place of the label index, the prefixes or LAYOUT_ANY_REFS, and the uses fill LAYOUT_RULE_REFS.
 */
struct layout_label_entry {
	struct layout_text name;
	struct layout_span exact;    /* into LAYOUT_RULE_REFS: rules for this very name */
	struct layout_span wildcard; /* into LAYOUT_RULE_REFS: rules for names below it */
};

struct layout_prefix_group { /* all prefixes of one family and length */
	uint8_t family, len;
	uint16_t reserved;
	uint32_t first, count; /* into LAYOUT_PREFIXES */
};

struct layout_prefix {
	uint8_t octets[16];
	struct layout_span rules; /* into LAYOUT_RULE_REFS */
};

enum layout_lease_state {
	LAYOUT_LEASE_ACTIVE = 1,
	LAYOUT_LEASE_SUSPENDED,
	LAYOUT_LEASE_REVOKED,
	LAYOUT_LEASE_INVALID, /* quarantined: policy_invalid */
	LAYOUT_LEASE_RULESET_MISSING,
};
enum layout_scope { LAYOUT_SCOPE_UNDECLARED = 1, LAYOUT_SCOPE_NONE, LAYOUT_SCOPE_DECLARED };
enum { /* layout_lease.require */
	LAYOUT_REQUIRE_LISTENER = 1 << 0,
	LAYOUT_REQUIRE_SOURCE = 1 << 1,
	LAYOUT_REQUIRE_TOKEN = 1 << 2,
};
enum { /* layout_lease.options */
	LAYOUT_OPTION_RESOLVE = 1 << 0,
	LAYOUT_OPTION_WHY = 1 << 1,
	LAYOUT_OPTION_NAMES_ONLY = 1 << 2,
	LAYOUT_OPTION_ECH_REFUSE = 1 << 3,
	LAYOUT_OPTION_REPORT = 1 << 4, /* enforcement "report" */
};

/* Limits: 0 means the compiled-in default of the daemon, UINT64_MAX none. */
struct layout_limits {
	uint64_t connections, connects_per_s, connects_per_s_destination, bytes_per_s, bytes;
	uint64_t names, lookups_per_s, lookup_failures_per_s, idle_ms, lifetime_ms;
};

struct layout_lease {
	struct layout_text id, tenant, run, environment_class, listener;
	uint64_t rev, epoch;
	uint64_t nbf_ms, exp_ms; /* wall time; 0: no bound */
	uint8_t state;           /* enum layout_lease_state */
	uint8_t scope;           /* enum layout_scope: what the mode says */
	uint8_t require;         /* never 0 */
	uint8_t claimed_scope;   /* what control says; 0: nothing. The stricter, smaller one counts */
	uint32_t options;
	struct layout_limits limits;
	struct layout_span places; /* option country/asn of the lease: into LAYOUT_PLACES */
};

struct layout_source {
	uint8_t family, len;
	uint8_t reserved[6];
	uint8_t octets[16];
};

struct layout_token {
	uint8_t digest[32];      /* SHA-256 of the whole token text */
	uint64_t exp_ms;         /* 0: with the lease */
	struct layout_text id;
};

struct layout_id {
	uint8_t bytes[LAYOUT_ID_LEN];
};

/* Re-opens special addresses or a special-use name for one host pattern. */
struct layout_exception {
	uint8_t family, prefix_len; /* family 0: no address, a name exception only */
	uint8_t host;               /* enum rule_host: NAME, WILDCARD, or PREFIX: the target is itself an address */
	uint8_t reserved[5];
	uint8_t octets[16];
	struct layout_text name;
	uint32_t line, reserved2;
};

enum { LAYOUT_ROOT_REPORT_ALLOWED = 1 << 0 };

/*
 * A complete root (base 0) names every lease of the snapshot. Any other names only those that differ from the snapshot whose version is
 * `base`; `ceiling` and `flags` always hold the new values, and a changed one is a change of every lease.
 */
struct layout_root {
	uint64_t version;       /* of the snapshot: grows */
	uint64_t base;          /* older than `version`; 0: complete */
	struct layout_id ceiling;
	uint32_t flags;
	uint32_t reserved;
};

struct layout_root_lease {
	struct layout_text id;
	struct layout_id segment; /* all zeros, and only with a base: the lease is gone */
};

static inline bool layout_id_is_none(const struct layout_id *id)
{
	static const struct layout_id none;

	return memcmp(id->bytes, none.bytes, LAYOUT_ID_LEN) == 0;
}

/* Bytes of a record. */
static inline uint32_t layout_record_size(enum layout_table table)
{
	static const uint32_t sizes[] = {
#define TABLE(name, record) [LAYOUT_##name] = sizeof(record),
		LAYOUT_TABLES(TABLE)
#undef TABLE
	};

	return sizes[table];
}

/* Both halves of the treaty are little-endian and agree on every size. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "segments are read in place");
_Static_assert(sizeof(struct layout_header) == 168, "layout_header");
_Static_assert(sizeof(struct layout_rule) == 80, "layout_rule");
_Static_assert(sizeof(struct layout_label_entry) == 24, "layout_label_entry");
_Static_assert(sizeof(struct layout_prefix_group) == 12, "layout_prefix_group");
_Static_assert(sizeof(struct layout_prefix) == 24, "layout_prefix");
_Static_assert(sizeof(struct layout_lease) == 168, "layout_lease");
_Static_assert(sizeof(struct layout_source) == 24, "layout_source");
_Static_assert(sizeof(struct layout_token) == 48, "layout_token");
_Static_assert(sizeof(struct layout_exception) == 40, "layout_exception");
_Static_assert(sizeof(struct layout_root) == 56, "layout_root");
_Static_assert(sizeof(struct layout_root_lease) == 40, "layout_root_lease");

#endif
