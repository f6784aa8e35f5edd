/* A parsed lease to its segments, with what it uses; shared by compile.c (memory) and root.c (files). */
#ifndef EGRESS_COMPILER_COMPILE_INTERNAL_H
#define EGRESS_COMPILER_COMPILE_INTERNAL_H

#include "compiler/compile.h"
#include "compiler/library.h"

/* Everything around a lease. Borrowed. */
struct compile_around {
	struct library *library;
	const struct policy *ceiling; /* NULL: none at hand */
	compile_ruleset_fn *ruleset;  /* NULL: no ruleset documents */
	void *ruleset_arg;
	uint64_t wall_ms;
};

/*
 * Resolve, lint and emit a lease whose parse gave `policy` without a fault. INVALID with faults when it must be quarantined. *out_uses is
 * written whenever the error is not NO_MEMORY, for what depends on the presets.
 */
enum err compile_tree(const struct policy *policy, const struct compile_around *around, struct fault_list *faults,
		      struct library_uses *out_uses, struct emitted *out_segment) ATTR_MUST_CHECK;
/* Resolve, lint and emit a ceiling; presets of `use` become part of it. *out_uses holds those of `provisioning` too: all it depends on. */
enum err compile_ceiling_tree(const struct policy *policy, struct library *library, struct fault_list *faults,
			      struct library_uses *out_uses, struct emitted *out_segment) ATTR_MUST_CHECK;
/* Read `.policy` text or a bare JSON payload into a tree. INVALID with faults; the id found so far is in out_id ("" if none). */
enum err compile_parse_lease(struct arena *arena, const char *file, struct text text, bool report_allowed,
			     struct fault_list *faults, struct policy **out_policy, char out_id[LEASE_DOC_ID_MAX + 1]) ATTR_MUST_CHECK;

#endif
