/*
 * What the first bytes of a flow are, by a table asked in order: the first sniffer that does not
 * say no decides. Judges nothing and parses nothing; the parser of the kind found says whether the
 * bytes are any good. Called by proxy/tunnel.
 */
#include "wire/sniff.h"

#include <string.h>

enum guess { GUESS_NO, GUESS_MORE, GUESS_YES };

typedef enum guess (*sniff_fn)(const uint8_t *bytes, size_t len);

static enum guess starts_with(const uint8_t *bytes, size_t len, const char *prefix)
{
	size_t want = strlen(prefix);

	if (memcmp(bytes, prefix, len < want ? len : want) != 0)
		return GUESS_NO;
	return len < want ? GUESS_MORE : GUESS_YES;
}

/* Record type handshake, then the major version that every TLS shares (RFC 8446 section 5.1). */
static enum guess sniff_tls(const uint8_t *bytes, size_t len)
{
	return starts_with(bytes, len, "\x16\x03");
}

static enum guess sniff_ssh(const uint8_t *bytes, size_t len)
{
	return starts_with(bytes, len, "SSH-2.0-");
}

/* A method starts with a letter; a broken request line is still an attempt at HTTP, and the
 * parser's to refuse. */
static enum guess sniff_http(const uint8_t *bytes, size_t len)
{
	uint8_t letter = bytes[0] | 0x20;

	if (letter < 'a' || letter > 'z')
		return GUESS_NO;
	switch (starts_with(bytes, len, "SSH-")) {
	case GUESS_YES: /* another version of SSH */
		return GUESS_NO;
	case GUESS_MORE:
		return GUESS_MORE;
	case GUESS_NO:
		break;
	}
	return GUESS_YES;
}

static const struct {
	enum sniff_kind kind;
	sniff_fn sniff;
} sniffers[] = {
	{ SNIFF_TLS, sniff_tls },
	{ SNIFF_SSH, sniff_ssh },
	{ SNIFF_HTTP, sniff_http },
};

enum parsed sniff_first_bytes(const uint8_t *bytes, size_t len, enum sniff_kind *out_kind)
{
	if (len == 0)
		return PARSED_MORE;
	for (size_t i = 0; i < ARRAY_LEN(sniffers); i++) {
		switch (sniffers[i].sniff(bytes, len)) {
		case GUESS_NO:
			break;
		case GUESS_MORE:
			return PARSED_MORE;
		case GUESS_YES:
			*out_kind = sniffers[i].kind;
			return PARSED_OK;
		}
	}
	*out_kind = SNIFF_OTHER;
	return PARSED_OK;
}
