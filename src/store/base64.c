/* base64, strict; see base64.h. */
#include "store/base64.h"

#include <stdint.h>

static const char alphabet[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const void *bytes, size_t len, char *out_text)
{
	const uint8_t *in = bytes;

	for (size_t i = 0; i < len; i += 3) {
		uint32_t group = (uint32_t)in[i] << 16;

		if (i + 1 < len)
			group |= (uint32_t)in[i + 1] << 8;
		if (i + 2 < len)
			group |= in[i + 2];
		*out_text++ = alphabet[group >> 18];
		*out_text++ = alphabet[group >> 12 & 63];
		*out_text++ = '=';
		*out_text++ = '=';
		if (i + 1 < len)
			out_text[-2] = alphabet[group >> 6 & 63];
		if (i + 2 < len)
			out_text[-1] = alphabet[group & 63];
	}
	*out_text = '\0';
}

/* 64 for what is no digit. */
static unsigned digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (unsigned)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (unsigned)(c - 'a') + 26;
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0') + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : 64;
}

bool base64_decode(struct text text, void *out_bytes, size_t *out_len)
{
	uint8_t *out = out_bytes;
	size_t pad = 0, len = 0;

	if (text.len % 4 != 0)
		return false;
	while (pad < 2 && pad < text.len && text.at[text.len - 1 - pad] == '=')
		pad++;
	for (size_t i = 0; i < text.len; i += 4) {
		size_t padded = i + 4 == text.len ? pad : 0;
		uint32_t group = 0;

		for (size_t k = 0; k < 4; k++) {
			unsigned value = k < 4 - padded ? digit(text.at[i + k]) : 0;

			if (value == 64)
				return false;
			group = group << 6 | value;
		}
		if ((padded == 1 && (group & 0xff) != 0) || (padded == 2 && (group & 0xffff) != 0))
			return false;
		out[len++] = (uint8_t)(group >> 16);
		if (padded < 2)
			out[len++] = (uint8_t)(group >> 8);
		if (padded < 1)
			out[len++] = (uint8_t)group;
	}
	*out_len = len;
	return true;
}
