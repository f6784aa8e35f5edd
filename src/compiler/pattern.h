/*
 * The one rule grammar (contract section 1) to a rule's value; facts/rule prints it. Documents, `.policy` files, the command line and
 * suggestions all come through here. Refuses wildcards on public suffixes (sole includer of libpsl). Hostile input: fuzzed.
 */
#ifndef EGRESS_COMPILER_PATTERN_H
#define EGRESS_COMPILER_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "facts/rule.h"

#define PATTERN_REASON_MAX 320

/* Why a text is no rule. */
struct pattern_fault {
	const char *code;  /* static text: "scheme_unknown", "host_invalid", "port_invalid", … */
	uint32_t at, len;  /* bytes of the text that it is about */
	char reason[PATTERN_REASON_MAX]; /* what was wrong, what was expected, what to do */
};

enum pattern_names {
	PATTERN_ASCII_ONLY,   /* documents: U-labels refuse */
	PATTERN_UNICODE_TOO,  /* `.policy` files: U-labels become A-labels */
};

/*
 * Parse "scheme://host[:ports]" (allow) or "host[:ports]" (deny; "any" is not read here). INVALID with *out_fault; NO_MEMORY only from
 * the Unicode tables. Ports come out ascending and disjoint, a prefix without host bits.
 */
enum err pattern_parse(struct text text, enum rule_action action, enum pattern_names names, struct rule *out_rule,
		       struct pattern_fault *out_fault) ATTR_MUST_CHECK;
/* Parse a host alone: "name", "*.name", address or prefix. For exceptions and tools. */
enum err pattern_parse_host(struct text text, enum pattern_names names, struct rule *out_rule,
			    struct pattern_fault *out_fault) ATTR_MUST_CHECK;
/* What a command line or a test asks about: "scheme://host[:port]" or a URL (path and query are ignored). One port always comes out. */
enum err pattern_parse_target(struct text text, struct rule *out_rule, struct pattern_fault *out_fault) ATTR_MUST_CHECK;

/* Is `name` a public suffix ("com", "co.uk", "github.io")? The built-in list; opens no file. */
bool pattern_is_public_suffix(const struct dname *name);
/* Is it a suffix under which unrelated people rent names (the private part of the list)? */
bool pattern_is_shared_suffix(const struct dname *name);

#endif
