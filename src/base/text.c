/* Text as views, ASCII only. Accepts one spelling of each number; never asks the locale. */
#include "base/text.h"

#include <string.h>

struct text text_of(const char *zero_terminated)
{
	return (struct text){ zero_terminated, strlen(zero_terminated) };
}

bool text_equal(struct text a, struct text b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

bool text_equal_nocase(struct text a, struct text b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++) {
		if (text_lower(a.at[i]) != text_lower(b.at[i]))
			return false;
	}
	return true;
}

bool text_is(struct text t, const char *word)
{
	return text_equal(t, text_of(word));
}

struct text text_take_until(struct text *io_rest, char stop)
{
	const char *at = io_rest->len == 0 ? NULL : memchr(io_rest->at, stop, io_rest->len);
	struct text part = { io_rest->at, at == NULL ? io_rest->len : (size_t)(at - io_rest->at) };
	size_t step = at == NULL ? part.len : part.len + 1;

	if (step > 0)
		io_rest->at += step;
	io_rest->len -= step;
	return part;
}

bool text_to_u64(struct text t, uint64_t max, uint64_t *out_value)
{
	uint64_t v = 0;

	if (t.len == 0 || (t.len > 1 && t.at[0] == '0'))
		return false;
	for (size_t i = 0; i < t.len; i++) {
		uint64_t digit = (uint64_t)(unsigned char)t.at[i] - '0';

		if (!text_is_digit(t.at[i]) || v > (UINT64_MAX - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	if (v > max)
		return false;
	*out_value = v;
	return true;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

bool text_to_bytes_hex(struct text t, uint8_t *out_bytes, size_t len)
{
	if (len > SIZE_MAX / 2 || t.len != 2 * len)
		return false;
	for (size_t i = 0; i < t.len; i++) {
		if (hex_value(t.at[i]) < 0)
			return false;
	}
	for (size_t i = 0; i < len; i++)
		out_bytes[i] =
			(uint8_t)(hex_value(t.at[2 * i]) << 4 | hex_value(t.at[2 * i + 1]));
	return true;
}

void text_from_bytes_hex(const uint8_t *bytes, size_t len, char *out_text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		out_text[2 * i] = digits[bytes[i] >> 4];
		out_text[2 * i + 1] = digits[bytes[i] & 15];
	}
	out_text[2 * len] = '\0';
}

size_t text_escape(struct text t, char *out_text, size_t cap)
{
	size_t len = 0;

	if (cap == 0)
		return 0;
	for (size_t i = 0; i < t.len; i++) {
		uint8_t c = (uint8_t)t.at[i];
		char escaped[5] = { '\\', 'x', 0, 0, 0 };
		size_t width = 4;

		if (c == '\\') {
			escaped[1] = '\\';
			width = 2;
		} else if (c >= 0x20 && c < 0x7f) {
			escaped[0] = (char)c;
			width = 1;
		} else {
			text_from_bytes_hex(&c, 1, escaped + 2);
		}
		if (width > cap - 1 - len)
			break;
		memcpy(out_text + len, escaped, width);
		len += width;
	}
	out_text[len] = '\0';
	return len;
}
