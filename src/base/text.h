/* ASCII-only case folding, comparison and number parsing; never looks at the locale. */
#ifndef EGRESS_BASE_TEXT_H
#define EGRESS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/* A view of text that somebody else owns; not zero-terminated. */
struct text {
	const char *at;
	size_t len;
};

struct text text_of(const char *zero_terminated);
static inline char text_lower(char c)
{
	return (c >= 'A' && c <= 'Z') ? (char)(c + ('a' - 'A')) : c;
}
static inline bool text_is_digit(char c)
{
	return c >= '0' && c <= '9';
}
/* Same length and bytes? */
bool text_equal(struct text a, struct text b);
/* Same length and bytes, ASCII case ignored? */
bool text_equal_nocase(struct text a, struct text b);
/* Is `t` exactly this word? */
bool text_is(struct text t, const char *word);
/* Take what stands before the first `stop`, and the stop itself, off *io_rest; all of it when there is none. */
struct text text_take_until(struct text *io_rest, char stop);
/* Decimal digits only, no sign, no leading zero except "0" itself, at most `max`. */
bool text_to_u64(struct text t, uint64_t max, uint64_t *out_value) ATTR_MUST_CHECK;
/* Hex digits, exactly 2*len of them, lower case only. */
bool text_to_bytes_hex(struct text t, uint8_t *out_bytes, size_t len) ATTR_MUST_CHECK;
/* Write 2*len lower-case hex digits and a zero byte. */
void text_from_bytes_hex(const uint8_t *bytes, size_t len, char *out_text);
/* Copy at most `cap - 1` bytes of `t`, escaping every byte outside printable ASCII as \xNN and the backslash as \\; always terminated. */
size_t text_escape(struct text t, char *out_text, size_t cap);

#endif
