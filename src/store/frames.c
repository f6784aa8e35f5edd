/* Words and places that all sources of frames share; see frames.h. */
#include "store/frames.h"

#include "document/beat_doc.h"

const char *frames_break_word(enum frames_break why)
{
#define BREAK_AS_WORD(sym, word) word,
	static const char *const words[] = { FRAMES_BREAKS(BREAK_AS_WORD) };
#undef BREAK_AS_WORD

	return why < FRAMES_BREAK_COUNT ? words[why] : "unknown";
}

unsigned frames_group_of(const char *cell)
{
	return beat_doc_group_of(cell);
}
