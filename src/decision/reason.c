/* The table of reasons and its look-ups. Total: an impossible value reads as "internal". */
#include "decision/reason.h"

struct reason_row {
	const char *word, *text;
	uint8_t reply;
	uint8_t via, fault;
};

#define REASON(sym, stable_word, socks_reply, how, whose, sentence)                                \
	[REASON_##sym] = { .word = stable_word,                                                    \
			   .text = sentence,                                                       \
			   .reply = socks_reply,                                                   \
			   .via = REASON_VIA_##how,                                                \
			   .fault = REASON_FAULT_##whose },
static const struct reason_row rows[REASON_COUNT] = {
#include "decision/reason.def"
};
#undef REASON

static const struct reason_row *row_of(enum reason r)
{
	return &rows[(unsigned)r < REASON_COUNT ? r : REASON_INTERNAL];
}

const char *reason_word(enum reason r)
{
	return row_of(r)->word;
}

const char *reason_text(enum reason r)
{
	return row_of(r)->text;
}

uint8_t reason_socks_reply(enum reason r)
{
	return row_of(r)->reply;
}

enum reason_via reason_via(enum reason r)
{
	return (enum reason_via)row_of(r)->via;
}

enum reason_fault reason_fault(enum reason r)
{
	return (enum reason_fault)row_of(r)->fault;
}

enum reason reason_stronger(enum reason a, enum reason b)
{
	if ((unsigned)a >= REASON_COUNT)
		a = REASON_INTERNAL;
	if ((unsigned)b >= REASON_COUNT)
		b = REASON_INTERNAL;
	if (a == REASON_ALLOWED || b == REASON_ALLOWED)
		return a == REASON_ALLOWED ? b : a;
	return a < b ? a : b;
}

bool reason_parse(struct text word, enum reason *out_reason)
{
	for (unsigned i = 0; i < REASON_COUNT; i++) {
		if (text_is(word, rows[i].word)) {
			*out_reason = (enum reason)i;
			return true;
		}
	}
	return false;
}
