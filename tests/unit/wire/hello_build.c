/* The builder behind hello_build.h. Knows the layout of RFC 8446 section 4.1.2 a second time,
 * written the other way round. */
#include "hello_build.h"

#include <string.h>

#include "base/sink.h"

void hello_build_init(struct hello_build *b)
{
	memset(b, 0, sizeof(*b));
	b->version = 0x0303;
	b->session_len = 32;
	b->suites_len = 4;
	b->methods_len = 1;
}

void hello_build_extension(struct hello_build *b, uint16_t type, const void *data, size_t len)
{
	struct sink s = sink_over(b->extensions + b->extensions_len,
				  sizeof(b->extensions) - b->extensions_len);

	sink_be16(&s, type);
	sink_be16(&s, (uint16_t)len);
	sink_bytes(&s, data, len);
	b->extensions_len += s.len;
}

void hello_build_name(struct hello_build *b, const char *name, size_t len)
{
	uint8_t data[66000];
	struct sink s = sink_over(data, sizeof(data));

	sink_be16(&s, (uint16_t)(len + 3));
	sink_u8(&s, 0);
	sink_be16(&s, (uint16_t)len);
	sink_bytes(&s, name, len);
	hello_build_extension(b, 0, data, s.len);
}

size_t hello_build_message(const struct hello_build *b, uint8_t *out_message)
{
	static const uint8_t filler[65536] = { [0] = 0x13, [1] = 0x01 };
	struct sink s = sink_over(out_message, 140000);
	size_t body_len = 2u + 32 + 1 + b->session_len + 2 + b->suites_len + 1 + b->methods_len;

	if (!b->without_block)
		body_len += 2 + b->extensions_len;
	sink_u8(&s, 1);
	sink_be24(&s, (uint32_t)((int)body_len + b->message_lie));
	sink_be16(&s, b->version);
	sink_bytes(&s, filler, 32);
	sink_u8(&s, b->session_len);
	sink_bytes(&s, filler, b->session_len);
	sink_be16(&s, b->suites_len);
	sink_bytes(&s, filler, b->suites_len);
	sink_u8(&s, b->methods_len);
	sink_bytes(&s, filler + 8, b->methods_len);
	if (!b->without_block) {
		sink_be16(&s, (uint16_t)((int)b->extensions_len + b->block_lie));
		sink_bytes(&s, b->extensions, b->extensions_len);
	}
	return s.len;
}

size_t hello_build_records(const uint8_t *message, size_t len, size_t fragment, uint8_t *out_bytes)
{
	struct sink s = sink_over(out_bytes, 800000);

	for (size_t at = 0; at < len; at += fragment) {
		size_t step = len - at < fragment ? len - at : fragment;

		sink_u8(&s, 22);
		sink_be16(&s, 0x0301);
		sink_be16(&s, (uint16_t)step);
		sink_bytes(&s, message + at, step);
	}
	return s.len;
}

size_t hello_build_browser(const char *name, uint8_t *out_bytes)
{
	static const uint8_t groups[] = { 0, 10, 0x8a, 0x8a, 0x11, 0xec, 0, 29, 0, 23, 0, 24 };
	static const uint8_t versions[] = { 6, 0xca, 0xca, 3, 4, 3, 3 };
	static const uint8_t alpn[] = { 0,   12,  2,   'h', '2', 8,   'h',
					't', 't', 'p', '/', '1', '.', '1' };
	static const uint8_t ech[] = {
		0, 0, 1, 0, 1, 0x2a, 0, 32, [8 + 32] = 0, 144, [8 + 32 + 2 + 144 - 1] = 1
	};
	uint8_t shares[2 + 5 + 4 + 1216 + 4 + 32] = { 0 };
	struct sink s = sink_over(shares, sizeof(shares));
	uint8_t message[4096];
	static struct hello_build b;

	sink_be16(&s, sizeof(shares) - 2);
	sink_be16(&s, 0x8a8a); /* GREASE group with one byte */
	sink_be16(&s, 1);
	sink_u8(&s, 0);
	sink_be16(&s, 0x11ec); /* X25519MLKEM768: 1184 + 32 bytes */
	sink_be16(&s, 1216);
	s.len += 1216;
	sink_be16(&s, 29);
	sink_be16(&s, 32);
	hello_build_init(&b);
	b.suites_len = 32;
	hello_build_extension(&b, 0x7a7a, NULL, 0);
	hello_build_extension(&b, 51, shares, sizeof(shares));
	hello_build_extension(&b, 0xfe0d, ech, sizeof(ech));
	hello_build_extension(&b, 16, alpn, sizeof(alpn));
	hello_build_name(&b, name, strlen(name));
	hello_build_extension(&b, 10, groups, sizeof(groups));
	hello_build_extension(&b, 43, versions, sizeof(versions));
	hello_build_extension(&b, 0xeaea, "", 1);
	return hello_build_records(message, hello_build_message(&b, message), 16384, out_bytes);
}
