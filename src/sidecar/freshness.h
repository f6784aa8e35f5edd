/*
 * The staleness machine of the contract (section 4) as arithmetic: when did control last say that what every worker adopted is still
 * right, and until when does that hold? Pure; knows no loop, no daemon and no clock. Times are clock_mono_ns values.
 */
#ifndef EGRESS_SIDECAR_FRESHNESS_H
#define EGRESS_SIDECAR_FRESHNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "lease/gate.h"

struct freshness {
	uint64_t refuse_after_ns, cut_after_ns;
	bool has_beat, has_match;
	uint64_t beat_ns;          /* of the last beat, taken before it was confirmed */
	uint64_t match_ns;         /* of the last beat whose holding every worker adopted */
	bool is_missing;           /* the last beat names a holding that they have not adopted */
	uint64_t missing_since_ns;
	bool is_halted;            /* nothing may be believed */
	uint64_t halted_since_ns;
};

void freshness_init(struct freshness *f, uint64_t refuse_after_s, uint64_t cut_after_s);
/* Change the bounds; values beyond the compiled-in ceilings become the ceilings. */
void freshness_set_bounds(struct freshness *f, uint64_t refuse_after_s, uint64_t cut_after_s);
/* A beat that was begun at `beat_ns` is valid; is what it names adopted? An older one than the last changes nothing. */
void freshness_beat(struct freshness *f, uint64_t beat_ns, bool is_adopted, uint64_t now_ns);
/* The holding changed, or the daemon went away: what the last beat names is not adopted (any more). */
void freshness_miss(struct freshness *f, uint64_t now_ns);
/* What the last beat names is adopted now. */
void freshness_match(struct freshness *f);
/* Nothing may be believed any more, or it may again: new connections end at once, live ones after cut_after at the latest. */
void freshness_halt(struct freshness *f, bool is_halted, uint64_t now_ns);
/* Until when new connections, and live ones, may go on; 0 and 0 before the first match. */
void freshness_deadlines(const struct freshness *f, uint64_t *out_refuse_at_ns, uint64_t *out_cut_at_ns);
enum gate_control freshness_state(const struct freshness *f, uint64_t now_ns);
/* "live", "stale", …: for health and metrics. */
const char *freshness_word(enum gate_control state);

#endif
