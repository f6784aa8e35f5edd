/*
 * SOCKS5 messages, whole or not at all: each take function works on a copy of the caller's cursor
 * and moves the original only when the message is complete. Knows no lease, no policy, no socket.
 * Called by proxy/handshake.
 */
#include "wire/socks5.h"

#include "base/sink.h"

#define PASSWORD_VERSION 0x01 /* RFC 1929 section 2 */

enum atyp { ATYP_V4 = 0x01, ATYP_NAME = 0x03, ATYP_V6 = 0x04 };

static struct text counted_text(struct cursor *c)
{
	size_t len = cursor_u8(c);
	const uint8_t *at = cursor_bytes(c, len);

	return (struct text){ .at = (const char *)at, .len = at == NULL ? 0 : len };
}

/* Read the leading version byte; false once the message cannot be what was expected. */
static bool version_is(struct cursor *c, uint8_t version)
{
	return cursor_u8(c) == version || !cursor_ok(c);
}

static enum parsed bad(enum socks5_fault fault, enum socks5_fault *out_fault)
{
	*out_fault = fault;
	return PARSED_BAD;
}

/* End a take: move the caller's cursor for OK, name the fault when a counted cursor ran short. */
static enum parsed taken(const struct cursor *c, struct cursor *in, enum socks5_fault *out_fault)
{
	if (c->status == PARSED_OK)
		*in = *c;
	else if (c->status == PARSED_BAD)
		*out_fault = SOCKS5_FAULT_MALFORMED;
	return c->status;
}

enum parsed socks5_take_greeting(struct cursor *in, struct socks5_greeting *out_greeting,
				 enum socks5_fault *out_fault)
{
	struct cursor c = *in;
	struct socks5_greeting greeting = { 0 };
	const uint8_t *methods;

	if (!version_is(&c, SOCKS5_VERSION))
		return bad(SOCKS5_FAULT_VERSION, out_fault);
	greeting.method_count = cursor_u8(&c);
	methods = cursor_bytes(&c, greeting.method_count);
	if (cursor_ok(&c)) {
		for (unsigned i = 0; i < greeting.method_count; i++) {
			greeting.offers_none |= methods[i] == SOCKS5_METHOD_NONE;
			greeting.offers_password |= methods[i] == SOCKS5_METHOD_PASSWORD;
		}
		*out_greeting = greeting;
	}
	return taken(&c, in, out_fault);
}

enum parsed socks5_take_credentials(struct cursor *in, struct socks5_credentials *out_credentials,
				    enum socks5_fault *out_fault)
{
	struct cursor c = *in;
	struct socks5_credentials credentials;

	if (!version_is(&c, PASSWORD_VERSION))
		return bad(SOCKS5_FAULT_VERSION, out_fault);
	credentials.user = counted_text(&c);
	credentials.password = counted_text(&c);
	if (cursor_ok(&c))
		*out_credentials = credentials;
	return taken(&c, in, out_fault);
}

static void read_host(struct cursor *c, uint8_t atyp, struct socks5_request *request)
{
	const uint8_t *octets;

	request->host = atyp == ATYP_NAME ? SOCKS5_HOST_NAME : SOCKS5_HOST_ADDRESS;
	if (atyp == ATYP_NAME) {
		request->name = counted_text(c);
		return;
	}
	octets = cursor_bytes(c, atyp == ATYP_V4 ? 4 : 16);
	if (octets != NULL)
		request->addr = atyp == ATYP_V4 ? addr_v4(octets) : addr_v6(octets);
}

enum parsed socks5_take_request(struct cursor *in, struct socks5_request *out_request,
				enum socks5_fault *out_fault)
{
	struct cursor c = *in;
	struct socks5_request request = { 0 };
	uint8_t atyp;

	if (!version_is(&c, SOCKS5_VERSION))
		return bad(SOCKS5_FAULT_VERSION, out_fault);
	request.command = cursor_u8(&c);
	cursor_expect(&c, 0x00);
	atyp = cursor_u8(&c);
	if (cursor_ok(&c)) {
		/* An unknown type has an unknown length: there is nothing to wait for. */
		if (atyp != ATYP_V4 && atyp != ATYP_NAME && atyp != ATYP_V6)
			return bad(SOCKS5_FAULT_ADDRESS_TYPE, out_fault);
		read_host(&c, atyp, &request);
		request.port = cursor_be16(&c);
	}
	if (cursor_ok(&c))
		*out_request = request;
	return taken(&c, in, out_fault);
}

size_t socks5_put_method(uint8_t method, uint8_t out_bytes[2])
{
	out_bytes[0] = SOCKS5_VERSION;
	out_bytes[1] = method;
	return 2;
}

size_t socks5_put_auth_status(bool success, uint8_t out_bytes[2])
{
	out_bytes[0] = PASSWORD_VERSION;
	out_bytes[1] = success ? 0x00 : 0x01;
	return 2;
}

size_t socks5_put_reply(uint8_t reply, const struct endpoint *bound,
			uint8_t out_bytes[SOCKS5_REPLY_MAX])
{
	static const struct endpoint nowhere = { .addr = { .family = ADDR_V4 } };
	struct sink s = sink_over(out_bytes, SOCKS5_REPLY_MAX);

	if (bound == NULL || bound->addr.family == ADDR_NONE)
		bound = &nowhere;
	sink_u8(&s, SOCKS5_VERSION);
	sink_u8(&s, reply);
	sink_u8(&s, 0x00);
	sink_u8(&s, bound->addr.family == ADDR_V6 ? ATYP_V6 : ATYP_V4);
	sink_bytes(&s, bound->addr.octets, addr_len(&bound->addr));
	sink_be16(&s, bound->port);
	return s.len;
}

struct text socks5_foreign_answer(const uint8_t *first, size_t len)
{
	/* "Rejected" of SOCKS4: 00, 91, then port and address, which the client ignores. */
	static const char socks4[8] = { 0x00, 0x5b };
	static const char http[] = "HTTP/1.1 501 Not Implemented\r\n"
				   "Content-Type: text/plain\r\n"
				   "Content-Length: 92\r\n"
				   "Connection: close\r\n"
				   "\r\n"
				   "This port speaks SOCKS5, not HTTP. Set the proxy to "
				   "socks5h://HOST:PORT instead of http://.\n";
	char letter;

	if (len == 0)
		return (struct text){ "", 0 };
	letter = text_lower((char)first[0]);
	if (first[0] == 0x04)
		return (struct text){ socks4, sizeof(socks4) };
	if (letter >= 'a' && letter <= 'z')
		return (struct text){ http, sizeof(http) - 1 };
	return (struct text){ "", 0 };
}
