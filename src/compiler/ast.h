/* A policy as a tree, owned by an arena: the same for `.policy` text and for JSON documents. Values only; no functions. */
#ifndef EGRESS_COMPILER_AST_H
#define EGRESS_COMPILER_AST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "config/fault.h"
#include "facts/rule.h"
#include "image/layout.h"

enum policy_kind { POLICY_PRESET, POLICY_LEASE, POLICY_CEILING };
enum policy_mode { POLICY_MODE_UNSAID, POLICY_MODE_UNKNOWN, POLICY_MODE_DENY_ALL, POLICY_MODE_ALLOWLIST, POLICY_MODE_PROVISIONING };

struct policy_place {
	char country[3]; /* "" for an AS number */
	uint32_t asn;
};

struct policy_rule {
	struct policy_rule *next;
	struct rule rule;
	const char *id, *note; /* "" when it has none */
	enum rule_pin pin;
	bool ech_refuse;
	bool report;
	const struct policy_place *places;
	size_t place_count;
	struct fault_place place;
	uint32_t number;       /* 1-based among the rules of its source */
};

struct policy_use { /* a preset by name, or a ruleset document by the hash of its payload */
	struct policy_use *next;
	const char *name;      /* "" for a document */
	uint8_t payload_sha256[32];
	struct fault_place place;
};

struct policy_exception {
	struct policy_exception *next;
	bool has_prefix;       /* false: a name exception only */
	struct prefix prefix;  /* addresses that are re-opened */
	struct rule host;      /* for whom: NAME, WILDCARD or PREFIX */
	struct fault_place place;
};

struct policy_token {
	struct policy_token *next;
	const char *id;        /* "" when it has none */
	uint8_t sha256[32];
	uint64_t exp_ms;       /* 0: with the lease */
};

struct policy_source {
	struct policy_source *next;
	struct prefix prefix;
	struct fault_place place;
};

struct policy {
	enum policy_kind kind;
	const char *file;      /* for messages */
	const char *name;      /* PRESET: its name; LEASE: its id; "" else */
	struct fault_place name_place;
	const char *tenant, *run, *environment_class; /* "" when not said */
	uint64_t epoch, rev;
	uint64_t nbf_ms, exp_ms; /* 0: no bound */
	enum layout_lease_state state;

	unsigned require;      /* LAYOUT_REQUIRE_… */
	const char *listener;  /* "" when not said */
	struct policy_source *sources;
	struct policy_token *tokens;

	enum policy_mode mode;
	enum layout_scope claimed_scope; /* 0 when not said */
	bool report;           /* enforcement report */
	uint32_t options;      /* LAYOUT_OPTION_… that are on */
	uint32_t options_off;  /* CEILING: those that are said to be off */
	struct layout_limits limits; /* 0: not said */
	const struct policy_place *places; /* lease option country, asn */
	size_t place_count;

	struct policy_rule *rules;
	size_t rule_count;
	struct policy_use *uses;
	struct policy_use *provisioning; /* CEILING */
	struct policy_exception *exceptions; /* CEILING */
};

#endif
