/*
 * A policy root (leases/, presets/, ceiling.policy) kept compiled: stats everything again when asked, or a few files, compiles what changed
 * and what depends on it, keeps faulty leases quarantined. Called by the sidecar's file driver and by the tools.
 */
#ifndef EGRESS_COMPILER_ROOT_H
#define EGRESS_COMPILER_ROOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "compiler/emit.h"
#include "config/fault.h"

#define ROOT_LEASES_MAX 100000

struct root;

struct root_options {
	bool trust_check;     /* contract section 4: owners and permissions must leave nobody else a say */
	bool report_allowed;  /* daemon option of the same name */
	const char *ceiling;  /* absolute path of the ceiling; NULL: ceiling.policy in the root */
};

/* One lease. Borrowed until the next root_refresh or root_close. */
struct root_lease {
	const char *id;
	const char *file;              /* below the root: "leases/build7.policy" */
	bool is_quarantined;           /* state LAYOUT_LEASE_INVALID */
	const struct emitted *segment;
	const struct fault_list *faults; /* errors and warnings of its last compile */
};

/*
 * Open and compile a root. Faulty leases are quarantined and do not fail it; INVALID (with `faults`) without a sound ceiling, DENIED when
 * the trust check fails. `faults` may be NULL and gets the faults of ceiling and root only.
 */
enum err root_open(const char *path, const struct root_options *options, struct fault_list *faults, struct root **out_root) ATTR_MUST_CHECK;
void root_close(struct root *root);
/*
 * Look at every file again, by path from the root down, and compile what changed. *out_changed: some segment is new or gone. An error means
 * that nothing could be confirmed: the root is gone or not trusted any more (what was held stays), or memory ran out (then what was held
 * may be gone until a refresh succeeds).
 */
enum err root_refresh(struct root *root, bool *out_changed) ATTR_MUST_CHECK;
/*
 * The same in parts, so that nothing waits for all of it: begin; go on for `count` files at a time until all are listed; finish. In between
 * root_refresh_some may be called; what it looked at is looked at again when the pass finishes. An error ends the pass.
 */
enum err root_pass_begin(struct root *root) ATTR_MUST_CHECK;
enum err root_pass_go_on(struct root *root, size_t count, bool *out_is_listed) ATTR_MUST_CHECK;
enum err root_pass_finish(struct root *root, bool *out_changed) ATTR_MUST_CHECK;
/* End a pass without acting on it; does nothing when there is none. */
void root_pass_drop(struct root *root);
/*
 * Look at these names in leases/ alone (files, or what was one; others are let be). All else is taken to be as it was when it was last looked
 * at, so this confirms nothing; otherwise as root_refresh.
 */
enum err root_refresh_some(struct root *root, const char *const *names, size_t count, bool *out_changed) ATTR_MUST_CHECK;

/* Is the ceiling sound? If not, every lease is quarantined and the ceiling allows nothing. */
bool root_ceiling_is_sound(const struct root *root);
const struct emitted *root_ceiling(const struct root *root);
size_t root_lease_count(const struct root *root);
/* Sorted by id. */
const struct root_lease *root_lease_at(const struct root *root, size_t index);
const struct root_lease *root_lease_find(const struct root *root, const char *id);
/*
 * Whose segment may be another than at the last root_note_taken: numbers for root_lease_at, each once. False: anybody's, and there may be
 * other leases. Borrowed until the next call that looks at files.
 */
bool root_others(const struct root *root, const size_t **out_numbers, size_t *out_count);
void root_note_taken(struct root *root);
/* The text that it was made of; false: there is none, or no such lease. */
bool root_lease_text(const struct root *root, const char *id, struct text *out_text);
/* Shared rulesets in use, each once. */
size_t root_ruleset_count(const struct root *root);
const struct emitted *root_ruleset_at(const struct root *root, size_t index);
/* A segment of any kind (but the root's) by id; NULL if none. */
const struct emitted *root_segment(const struct root *root, const uint8_t id[LAYOUT_ID_LEN]);
/* Visit all faults and warnings: the ceiling's, the presets' in use, then each lease file's, also of files that gave no lease. */
typedef void root_fault_fn(void *arg, const struct fault *fault);
void root_visit_faults(const struct root *root, root_fault_fn *visit, void *arg);
/* Why the last root_open or root_refresh could not confirm: a sentence; "" when it could. */
const char *root_reason(const struct root *root);

/* The ROOT segment of what is held now. `flags` from options. Owned by the caller. */
enum err root_emit(const struct root *root, uint64_t version, struct emitted *out_segment) ATTR_MUST_CHECK;

#endif
