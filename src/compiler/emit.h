/* Tree to segment: the same tree gives the same bytes. The only writer of image/layout.h. */
#ifndef EGRESS_COMPILER_EMIT_H
#define EGRESS_COMPILER_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "compiler/ast.h"
#include "image/layout.h"

/* A finished segment. */
struct emitted {
	uint8_t *bytes; /* owned (emitted_finish); NULL when empty */
	size_t len;
	uint8_t id[LAYOUT_ID_LEN]; /* SHA-256 of bytes */
	bool is_counted; /* behind its bytes stands how many others share them; false: it was made by hand */
};
/* The last who shares the bytes frees them. */
void emitted_finish(struct emitted *e);
/* The same bytes for one more owner, of the same thread: shared, or a copy of what was made by hand. */
enum err emitted_share(const struct emitted *e, struct emitted *out_shared) ATTR_MUST_CHECK;

/* Rules of a preset or a ruleset document. */
enum err emit_ruleset(const struct policy *policy, struct emitted *out_segment) ATTR_MUST_CHECK;
/*
 * A lease with its own rules; `rulesets` are the segments that it shares, in order. `ceiling` (may be NULL) bounds limits and options.
 * With `rulesets_missing` its state becomes LAYOUT_LEASE_RULESET_MISSING.
 */
enum err emit_lease(const struct policy *policy, const struct policy *ceiling, const struct layout_id *rulesets,
		    size_t ruleset_count, bool rulesets_missing, struct emitted *out_segment) ATTR_MUST_CHECK;
/* A lease that cannot be read: state LAYOUT_LEASE_INVALID, no rule. What is known of how its guests arrive comes from `policy` (may be NULL). */
enum err emit_quarantined(const char *lease_id, const struct policy *policy, struct emitted *out_segment) ATTR_MUST_CHECK;
/* The operator's rules and exceptions; NULL: a ceiling that allows nothing. */
enum err emit_ceiling(const struct policy *policy, const struct policy *const *presets, size_t preset_count,
		      struct emitted *out_segment) ATTR_MUST_CHECK;

struct emit_root_lease {
	const char *id;
	struct layout_id segment;
};
/*
 * The root; sorts a copy of `leases` by id. With `base` 0 they are all leases of the snapshot; else those that differ from the snapshot of
 * that version, where an all-zero segment says that the lease is gone. EXISTS when two have the same id.
 */
enum err emit_root(uint64_t version, uint64_t base, const struct layout_id *ceiling, uint32_t flags,
		   const struct emit_root_lease *leases, size_t lease_count, struct emitted *out_segment) ATTR_MUST_CHECK;

#endif
