/* `.policy` text, and JSON documents, to a tree: all errors reported, not the first. Opens nothing. */
#ifndef EGRESS_COMPILER_PARSE_H
#define EGRESS_COMPILER_PARSE_H

#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "compiler/ast.h"
#include "config/fault.h"
#include "document/lease_doc.h"

/* What the text is meant to be. A lease must have a `lease` line, the others must not. */
struct parse_as {
	enum policy_kind kind;
	const char *name;     /* PRESET: its name; else "" */
	bool report_allowed;  /* may rules and leases be report-only? */
};

/* Parse a `.policy` text. INVALID with faults; *out_policy (in `arena`) is written even then, as far as it was read, for its name. */
enum err parse_policy(struct arena *arena, const char *file, struct text text, const struct parse_as *as,
		      struct fault_list *faults, struct policy **out_policy) ATTR_MUST_CHECK;
/* Make the tree of a lease document; its rules are parsed here. The document must live as long as the tree. */
enum err parse_lease_doc(struct arena *arena, const char *file, const struct lease_doc *doc, bool report_allowed,
			 struct fault_list *faults, struct policy **out_policy) ATTR_MUST_CHECK;
/* Likewise for a ruleset document. */
enum err parse_ruleset_doc(struct arena *arena, const char *file, const struct ruleset_doc *doc, bool report_allowed,
			   struct fault_list *faults, struct policy **out_policy) ATTR_MUST_CHECK;
/* Carry the faults of a document over, pointer and all. */
void parse_take_json_faults(const char *file, const struct json_faults *from, struct fault_list *faults);

#endif
