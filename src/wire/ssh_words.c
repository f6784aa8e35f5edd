/* See the header. Called by proxy/tunnel_words. */
#include "wire/ssh_words.h"

#include <string.h>

#include "base/sink.h"

#define IDENTIFICATION "SSH-2.0-egress\r\n"
#define MESSAGE_DISCONNECT 1
#define HOST_NOT_ALLOWED_TO_CONNECT 1
#define BLOCK 8 /* section 6: what precedes encryption is padded to this */
#define PADDING_MIN 4

static void put_string(struct sink *s, const char *text, size_t len)
{
	sink_be32(s, (uint32_t)len);
	sink_bytes(s, text, len);
}

size_t ssh_words_put(const char *text, uint8_t out_bytes[SSH_WORDS_MAX])
{
	struct sink s = sink_over(out_bytes, SSH_WORDS_MAX);
	size_t len = strnlen(text, SSH_WORDS_TEXT_MAX);
	size_t payload = 1 + 4 + 4 + len + 4;
	size_t padding = BLOCK - (4 + 1 + payload) % BLOCK;

	if (padding < PADDING_MIN)
		padding += BLOCK;
	sink_bytes(&s, text, len);
	sink_text(&s, "\r\n" IDENTIFICATION);
	sink_be32(&s, (uint32_t)(1 + payload + padding));
	sink_u8(&s, (uint8_t)padding);
	sink_u8(&s, MESSAGE_DISCONNECT);
	sink_be32(&s, HOST_NOT_ALLOWED_TO_CONNECT);
	put_string(&s, text, len);
	put_string(&s, "", 0); /* in no language */
	while (padding-- > 0)
		sink_u8(&s, 0);
	return sink_ok(&s) ? s.len : 0;
}
