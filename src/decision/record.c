/* Ids of records (time-ordered, so that a sorted list of them is a list in time), and how an event
 * reads in OCSF numbers. */
#include "decision/record.h"

#include "base/attr.h"
#include "decision/record_internal.h"

#define TIME_CHARS                                                                                 \
	10 /* 48 bits of milliseconds; the first character holds only three of its five bits */

void record_make_id(uint64_t wall_ms, const uint8_t random[10], char out_id[RECORD_ID_LEN + 1])
{
	/* Crockford's alphabet: no I, L, O, U. */
	static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
	uint64_t bits = 0;
	unsigned have = 0;
	size_t at = TIME_CHARS;

	for (size_t i = 0; i < TIME_CHARS; i++)
		out_id[i] = alphabet[(wall_ms & 0xffffffffffff) >> (5 * (TIME_CHARS - 1 - i)) & 31];
	for (size_t i = 0; i < 10; i++) {
		bits = bits << 8 | random[i];
		have += 8;
		while (have >= 5) {
			have -= 5;
			out_id[at++] = alphabet[bits >> have & 31];
		}
	}
	out_id[at] = '\0';
}

/* The proxy let it through and the origin or its name servers failed: nobody was denied anything.
 */
static bool is_upstream_failure(enum reason why)
{
	return reason_fault(why) == REASON_FAULT_UPSTREAM && reason_via(why) == REASON_VIA_REPLY;
}

struct record_outcome record_outcome_of(const struct record *r)
{
	enum reason why = r->verdict.reason;

	if (r->event == RECORD_CLOSE)
		return (struct record_outcome){
			2, 1, 1, why == REASON_ALLOWED || r->verdict.would_deny ? 1 : 2, 1
		};
	if (r->event == RECORD_CUT)
		return (struct record_outcome){ 3, 2, 24, 2, 2 };
	if (r->verdict.allow)
		return (struct record_outcome){ 1, 1, 1, 1, 1 };
	if (is_upstream_failure(why))
		return (struct record_outcome){ 4, 1, 27, 2, 2 };
	return (struct record_outcome){ 5, 2, 2, 2, 2 };
}

const char *record_uid_suffix(const struct record *r)
{
	if (r->event == RECORD_CLOSE)
		return "-close";
	if (r->event == RECORD_CUT)
		return "-cut";
	switch (r->phase) {
	case PHASE_STREAM:
		return "-stream";
	case PHASE_REDIRECT:
		return "-redirect";
	case PHASE_REQUEST:
	case PHASE_ADDRESS:
		break;
	}
	return "";
}

static const char *const phase_words[] = {
	[PHASE_REQUEST] = "request",
	[PHASE_ADDRESS] = "address",
	[PHASE_STREAM] = "stream",
	[PHASE_REDIRECT] = "redirect",
};

static const char *const source_words[] = {
	[VERDICT_BY_NOTHING] = "",
	[VERDICT_BY_LEASE] = "lease",
	[VERDICT_BY_RULESET] = "ruleset",
	[VERDICT_BY_CEILING] = "ceiling",
};

static bool find_word(struct text word, const char *const *words, unsigned count,
		      unsigned *out_index)
{
	for (unsigned i = 0; i < count; i++) {
		if (text_is(word, words[i])) {
			*out_index = i;
			return true;
		}
	}
	return false;
}

const char *record_phase_word(enum facts_phase phase)
{
	return (unsigned)phase < ARRAY_LEN(phase_words) ? phase_words[phase]
							: phase_words[PHASE_REQUEST];
}

bool record_phase_parse(struct text word, enum facts_phase *out_phase)
{
	unsigned index;

	if (!find_word(word, phase_words, ARRAY_LEN(phase_words), &index))
		return false;
	*out_phase = (enum facts_phase)index;
	return true;
}

const char *record_source_word(enum verdict_source source)
{
	return (unsigned)source < ARRAY_LEN(source_words) ? source_words[source] : "";
}

bool record_source_parse(struct text word, enum verdict_source *out_source)
{
	unsigned index;

	if (!find_word(word, source_words, ARRAY_LEN(source_words), &index))
		return false;
	*out_source = (enum verdict_source)index;
	return true;
}
