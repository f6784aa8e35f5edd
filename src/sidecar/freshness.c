/*
 * Staleness by two deadlines: everything the table of the contract says follows from the last matching beat and from how
 * long a named holding has been missing. Promises that only a valid, matching beat moves a deadline forward.
 */
#include "sidecar/freshness.h"

#include "base/attr.h"

#define NS_PER_S 1000000000ULL
#define LAG_AFTER_NS (3 * NS_PER_S)
#define LAG_MISSING_NS (1 * NS_PER_S)
#define STALE_MISSING_NS (5 * NS_PER_S)
#define CUT_STALE_NS (20 * NS_PER_S)

static uint64_t at_most(uint64_t value, uint64_t limit)
{
	return value < limit ? value : limit;
}

void freshness_set_bounds(struct freshness *f, uint64_t refuse_after_s, uint64_t cut_after_s)
{
	f->refuse_after_ns = at_most(refuse_after_s, GATE_REFUSE_AFTER_CEILING_S) * NS_PER_S;
	f->cut_after_ns = at_most(cut_after_s, GATE_CUT_AFTER_CEILING_S) * NS_PER_S;
}

void freshness_init(struct freshness *f, uint64_t refuse_after_s, uint64_t cut_after_s)
{
	*f = (struct freshness){ 0 };
	freshness_set_bounds(f, refuse_after_s, cut_after_s);
}

void freshness_beat(struct freshness *f, uint64_t beat_ns, bool is_adopted, uint64_t now_ns)
{
	if (f->has_beat && beat_ns < f->beat_ns)
		return;
	f->has_beat = true;
	f->beat_ns = beat_ns;
	if (is_adopted)
		freshness_match(f);
	else
		freshness_miss(f, now_ns);
}

void freshness_miss(struct freshness *f, uint64_t now_ns)
{
	if (f->is_missing)
		return;
	f->is_missing = true;
	f->missing_since_ns = now_ns;
}

void freshness_match(struct freshness *f)
{
	if (!f->has_beat)
		return;
	f->has_match = true;
	f->match_ns = f->beat_ns;
	f->is_missing = false;
}

void freshness_halt(struct freshness *f, bool is_halted, uint64_t now_ns)
{
	if (is_halted && !f->is_halted)
		f->halted_since_ns = now_ns;
	f->is_halted = is_halted;
}

void freshness_deadlines(const struct freshness *f, uint64_t *out_refuse_at_ns, uint64_t *out_cut_at_ns)
{
	uint64_t refuse_at = 0, cut_at = 0;

	if (f->has_match) {
		refuse_at = f->match_ns + f->refuse_after_ns;
		if (f->is_missing)
			refuse_at = at_most(refuse_at, f->missing_since_ns + STALE_MISSING_NS);
		cut_at = at_most(f->match_ns + f->cut_after_ns, refuse_at + CUT_STALE_NS);
	}
	if (f->is_halted) {
		refuse_at = 0;
		cut_at = at_most(cut_at, f->halted_since_ns + f->cut_after_ns);
	}
	*out_refuse_at_ns = refuse_at;
	*out_cut_at_ns = cut_at;
}

enum gate_control freshness_state(const struct freshness *f, uint64_t now_ns)
{
	uint64_t refuse_at, cut_at;

	if (f->is_halted)
		return GATE_HALT;
	if (!f->has_beat)
		return GATE_COLD;
	if (!f->has_match)
		return GATE_SYNC;
	freshness_deadlines(f, &refuse_at, &cut_at);
	if (now_ns >= cut_at)
		return GATE_CUT;
	if (now_ns >= refuse_at)
		return GATE_STALE;
	if (now_ns > f->match_ns + LAG_AFTER_NS ||
	    (f->is_missing && now_ns > f->missing_since_ns + LAG_MISSING_NS))
		return GATE_LAG;
	return GATE_LIVE;
}

const char *freshness_word(enum gate_control state)
{
	static const char *const words[] = {
		[GATE_COLD] = "cold",	[GATE_SYNC] = "sync", [GATE_LIVE] = "live", [GATE_LAG] = "lag",
		[GATE_STALE] = "stale", [GATE_CUT] = "cut",   [GATE_HALT] = "halt",
	};

	return (unsigned)state < ARRAY_LEN(words) ? words[state] : "unknown";
}
