/* Words and places that all sources of frames share; see frames.h. */
#include "sidecar/frames.h"

#include <string.h>

#include "base/crypto.h"

#define GROUPS 32

const char *frames_break_word(enum frames_break why)
{
#define BREAK_AS_WORD(sym, word) word,
	static const char *const words[] = { FRAMES_BREAKS(BREAK_AS_WORD) };
#undef BREAK_AS_WORD

	return why < FRAMES_BREAK_COUNT ? words[why] : "unknown";
}

unsigned frames_group_of(const char *cell)
{
	uint8_t digest[CRYPTO_SHA256_LEN] = { 0 };

	/* Without the library every cell is asked for in group 0, where its beat may not be: it stays shut. */
	if (crypto_sha256(cell, strlen(cell), digest) != ERR_OK)
		return 0;
	return digest[0] % GROUPS;
}
