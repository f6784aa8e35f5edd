/* Text of our own failures. Knows only the table in err.h. */
#include "base/err.h"

#include <stddef.h>

#include "base/attr.h"

const char *err_text(enum err e)
{
#define ERRS_AS_TEXT(sym, text) [ERR_##sym] = text,
	static const char *const texts[ERR_COUNT] = { ERRS(ERRS_AS_TEXT) };
#undef ERRS_AS_TEXT

	if ((unsigned)e >= ARRAY_LEN(texts))
		return "unknown error";
	return texts[e];
}
