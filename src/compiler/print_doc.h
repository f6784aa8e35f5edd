/* A tree as the JSON of a signed document: what an authority makes of `.policy` files and bare leases. Same tree, same bytes. */
#ifndef EGRESS_COMPILER_PRINT_DOC_H
#define EGRESS_COMPILER_PRINT_DOC_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "compiler/ast.h"

/* What a signed lease says and the tree does not. */
struct print_doc_signed {
	const char *cell;
	uint64_t epoch, rev, nbf_ms, exp_ms;
	const uint8_t (*rulesets)[32]; /* SHA-256 of payloads, in order */
	size_t ruleset_count;
};

/* Append `egress.lease/1`; uses of the tree are not printed, `with` names the rulesets. LIMIT when the buffer is full. */
enum err print_doc_lease(const struct policy *policy, const struct print_doc_signed *with, struct buf *out) ATTR_MUST_CHECK;
/* Append `egress.ruleset/1` with the rules of a preset. */
enum err print_doc_ruleset(const struct policy *policy, struct buf *out) ATTR_MUST_CHECK;

#endif
