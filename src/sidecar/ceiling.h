/*
 * The operator's ceiling beside a source of signed documents: a file of this machine with its presets, trusted for its owner and
 * permissions, never sent by control. Read again when it changed; a faulty one makes every lease invalid.
 */
#ifndef EGRESS_SIDECAR_CEILING_H
#define EGRESS_SIDECAR_CEILING_H

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "compiler/compile.h"
#include "config/fault.h"

struct ceiling;

/* Read it. INVALID with `faults` when it is not sound. */
enum err ceiling_open(const char *path, bool report_allowed, struct fault_list *faults, struct ceiling **out_ceiling) ATTR_MUST_CHECK;
/* Accepts NULL. */
void ceiling_close(struct ceiling *c);
/* Look at the files again; true when anything is different now. */
bool ceiling_refresh(struct ceiling *c);
bool ceiling_is_sound(const struct ceiling *c);
/* The segment; one that allows nothing while it is not sound. Borrowed until the next refresh. */
const struct emitted *ceiling_segment(const struct ceiling *c);
/* Text and presets for compiling leases; ruleset is the caller's to set, with `arg` passed through. Borrowed until the next refresh. */
struct compile_context ceiling_context(struct ceiling *c);
/* A preset's text, for a compile_preset_fn of the caller's. */
enum err ceiling_preset(struct ceiling *c, const char *name, struct text *out_text) ATTR_MUST_CHECK;
const struct fault_list *ceiling_faults(const struct ceiling *c);

#endif
