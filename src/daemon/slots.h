/*
 * Slots of the control page, given to lease ids and taken back when a lease is gone. A slot is given out only while the page says it is
 * not open, so that a late word of the sidecar about the last lease never opens the next one. Remembers which leases may be gone and which
 * slots the sidecar is to be told, so that a change costs nothing for all others. Main thread only.
 */
#ifndef EGRESS_DAEMON_SLOTS_H
#define EGRESS_DAEMON_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/htab.h"
#include "base/list.h"
#include "base/text.h"
#include "decision/record.h"
#include "lease/gate.h"
#include "lease/lease_table.h"

#define SLOTS_NONE LEASE_TABLE_NO_SLOT

struct slots {
	struct gate *gate;   /* borrowed */
	struct htab by_id;
	struct hash_key key;
	uint32_t *free_slots; /* owned: a stack */
	uint32_t free_count;
	uint32_t *since;      /* owned: a slot's generation when it was taken back last */
	struct list leaving;  /* given, but the next sweep asks */
	struct list named;    /* given, and to be told */
	bool all_named;       /* all are to be told */
};

enum err slots_init(struct slots *s, struct gate *gate) ATTR_MUST_CHECK;
void slots_finish(struct slots *s);
/* The slot of this id, given now if it has none; SLOTS_NONE when none is left or memory is out. */
uint32_t slots_take(struct slots *s, struct text id);
/* The slot of this id; SLOTS_NONE if it has none. */
uint32_t slots_find(const struct slots *s, struct text id);
/* This lease may be gone: the next sweep asks. It asks by itself about those that were given since the last one. */
void slots_leave(struct slots *s, struct text id);
/* Take back the slot of every id that was left or is new and `is_gone`; voids its generation first. Returns how many. */
typedef bool slots_gone_fn(void *arg, struct text id);
size_t slots_sweep(struct slots *s, slots_gone_fn *is_gone, void *arg);
/* Has the slot had one lease only since this generation? It is counted on by each revocation too. */
bool slots_is_about(const struct slots *s, uint32_t slot, uint64_t generation);
/* How many are given. */
size_t slots_count(const struct slots *s);
/* Walk all that are given. */
typedef void slots_visit_fn(void *arg, struct text id, uint32_t slot);
void slots_visit(const struct slots *s, slots_visit_fn *visit, void *arg);
/* The sidecar is to be told this slot, or all of them. What is new is to be told in any case. */
void slots_name(struct slots *s, struct text id);
void slots_name_all(struct slots *s);
/* Walk what is to be told, and forget it. */
void slots_visit_named(struct slots *s, slots_visit_fn *visit, void *arg);

#endif
