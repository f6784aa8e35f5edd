/* One policy in memory to its segments, for the tools, the tests and signed documents: parse, resolve, lint, emit in one call. */
#ifndef EGRESS_COMPILER_COMPILE_H
#define EGRESS_COMPILER_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "compiler/emit.h"
#include "config/fault.h"
#include "document/lease_doc.h"

/* A preset's text; NOT_FOUND if there is none. *out_text must live until the compile call returns. */
typedef enum err compile_preset_fn(void *arg, const char *name, struct text *out_text);
/* Which segment did the ruleset document with this payload hash become? false: not held. */
typedef bool compile_ruleset_fn(void *arg, const uint8_t payload_sha256[32], struct layout_id *out_segment);

struct compile_context {
	compile_preset_fn *preset;   /* NULL: no presets */
	compile_ruleset_fn *ruleset; /* NULL: no ruleset documents */
	void *arg;                   /* of both */
	struct text ceiling;         /* ceiling.policy text for limits, provisioning and lint; empty: none at hand */
	bool report_allowed;
	uint64_t wall_ms;            /* for lint; 0: do not look at times */
};

/* A lease and the presets that it uses. */
struct compiled {
	char id[LEASE_DOC_ID_MAX + 1]; /* "" when the lease has none that can be read */
	bool is_quarantined;
	struct emitted lease;      /* a quarantined one too, when the id is known */
	struct emitted *rulesets;  /* owned: of presets; documents are the caller's */
	size_t ruleset_count;
};
void compiled_finish(struct compiled *c);

/*
 * Compile a lease: `.policy` text, or a bare JSON payload when it starts with '{'. Faults go to `faults`; a faulty lease is OK here with
 * is_quarantined set. Fails only for memory.
 */
enum err compile_lease_text(const char *file, struct text text, const struct compile_context *context, struct fault_list *faults,
			    struct compiled *out_compiled) ATTR_MUST_CHECK;
/* Compile a lease document that was read before (signed documents). */
enum err compile_lease_doc(const char *file, const struct lease_doc *doc, const struct compile_context *context,
			   struct fault_list *faults, struct compiled *out_compiled) ATTR_MUST_CHECK;

/* What the leases of one ceiling have in common, parsed once for all of them: the ceiling, and each preset when it is first used. */
struct compile_bench;
/*
 * Parse the ceiling of `context`, whose ceiling and presets must live as long as the bench; its `ruleset` is not used. A faulty ceiling is left
 * out, and a warning of each lease. Fails only for memory.
 */
enum err compile_bench_create(const struct compile_context *context, struct compile_bench **out_bench) ATTR_MUST_CHECK;
/* Accepts NULL. */
void compile_bench_destroy(struct compile_bench *b);
/*
 * As compile_lease_doc, with the bench's ceiling and presets; `rulesets` (may be NULL) is asked with `arg`. The segments of the presets stay
 * the bench's (*out_compiled has none): compile_bench_preset finds them.
 */
enum err compile_bench_lease_doc(struct compile_bench *b, const char *file, const struct lease_doc *doc, compile_ruleset_fn *rulesets,
				 void *arg, struct fault_list *faults, struct compiled *out_compiled) ATTR_MUST_CHECK;
/* The segment of a preset that some lease used, by its id; NULL if there is none. Borrowed while the bench lives. */
const struct emitted *compile_bench_preset(const struct compile_bench *b, const uint8_t id[LAYOUT_ID_LEN]);

/* Compile a ruleset document. INVALID with faults. */
enum err compile_ruleset_doc(const char *file, const struct ruleset_doc *doc, const struct compile_context *context,
			     struct fault_list *faults, struct emitted *out_segment) ATTR_MUST_CHECK;
/* Compile a ceiling. INVALID with faults. */
enum err compile_ceiling_text(const char *file, struct text text, const struct compile_context *context,
			      struct fault_list *faults, struct emitted *out_segment) ATTR_MUST_CHECK;

#endif
