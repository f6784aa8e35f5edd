/*
 * The operator's ceiling beside a source of signed documents: a file of this machine with its presets, trusted for its owner and
 * permissions, never sent by control. Read again when it changed; a faulty one makes every lease invalid.
 */
#ifndef EGRESS_SOURCE_CEILING_H
#define EGRESS_SOURCE_CEILING_H

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
/* Ceiling and presets parsed, for compiling leases; made when it is first asked for. NULL: no memory. Borrowed until the next refresh. */
struct compile_bench *ceiling_bench(struct ceiling *c);
bool ceiling_is_report_allowed(const struct ceiling *c);
const struct fault_list *ceiling_faults(const struct ceiling *c);

#endif
