/*
 * The control page: a memfd shared by daemon and sidecar, read at every permit. It holds two deadlines and, per slot, a generation and a
 * state. The daemon alone writes generations, the sidecar alone deadlines and states. All fields are atomics; a page full of
 * zeros refuses everything. The fourth place where threads (and here processes) meet.
 */
#ifndef EGRESS_LEASE_GATE_H
#define EGRESS_LEASE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "decision/reason.h"

#define GATE_REFUSE_AFTER_CEILING_S 120
#define GATE_CUT_AFTER_CEILING_S 300

enum gate_control { GATE_COLD = 0, GATE_SYNC, GATE_LIVE, GATE_LAG, GATE_STALE, GATE_CUT, GATE_HALT };
/* Slot states, written by the sidecar. CLOSED (0) refuses with not_ready: a lease that is not (yet) told to be open. */
enum gate_slot_state {
	GATE_SLOT_CLOSED = 0,
	GATE_SLOT_OPEN = 1,
	GATE_SLOT_REVOKED = 2,
	GATE_SLOT_SUSPENDED = 3,
	GATE_SLOT_INVALID = 4,
	GATE_SLOT_EXPIRED = 5,
};

struct gate_slot {
	atomic_uint_fast32_t generation; /* daemon: grows when the slot's lease ends or the slot is given to another */
	atomic_uint_fast32_t state;      /* sidecar: enum gate_slot_state */
};

struct gate; /* a mapping of the page */

/* Create the page with `slots` slots (daemon, at boot). */
enum err gate_create(uint32_t slots, struct gate **out_gate) ATTR_MUST_CHECK;
/* Map a page that was received (sidecar). Borrows `fd`. INVALID when it is not a page of ours. */
enum err gate_map(int fd, struct gate **out_gate) ATTR_MUST_CHECK;
void gate_destroy(struct gate *g);
/* The page's descriptor, for passing on; -1 for a mapped one. */
int gate_fd(const struct gate *g);
uint32_t gate_slot_count(const struct gate *g);

/*
 * Sidecar's half. Deadlines are clock_mono_ns values, cut to the compiled-in ceilings from now when they are set. A reader that still finds
 * one further away takes the page for damaged and halts: cutting it down at each read would renew it for ever.
 */
void gate_set_deadlines(struct gate *g, uint64_t refuse_at_ns, uint64_t cut_at_ns);
void gate_set_control(struct gate *g, enum gate_control state);
void gate_set_slot(struct gate *g, uint32_t slot, enum gate_slot_state state);
void gate_deadlines(const struct gate *g, uint64_t *out_refuse_at_ns, uint64_t *out_cut_at_ns);
enum gate_control gate_control(const struct gate *g);
enum gate_slot_state gate_slot_state(const struct gate *g, uint32_t slot);

/* Daemon's half. */
uint32_t gate_generation(const struct gate *g, uint32_t slot);
/* Make every permit and session of the slot void; returns the new generation. */
uint32_t gate_next_generation(struct gate *g, uint32_t slot);

/*
 * May anything new happen for this slot and generation at `mono_ns`? ALLOWED, or not_ready, control_halt, control_stale, the slot's word, or
 * policy_changed for another generation. An impossible slot is `internal`. Lock-free; any thread.
 */
enum reason gate_check(const struct gate *g, uint32_t slot, uint32_t generation, uint64_t mono_ns);
/* May anything new happen at all (before a lease is known)? */
enum reason gate_check_control(const struct gate *g, uint64_t mono_ns);
/* Must live sessions be closed now? ALLOWED, control_stale or control_halt. */
enum reason gate_check_cut(const struct gate *g, uint64_t mono_ns);

#endif
