/*
 * Chunked bodies. The first byte is the size of pieces. What passes is the same in any pieces; what
 * passed as a whole body is read again, by a second and simple reader, as chunks that end in the
 * same place and trailers that may be there.
 */
#include <strings.h>

#include "require.h"
#include "wire/http1_body.h"

static size_t line_len(const uint8_t *bytes, size_t len)
{
	size_t n = 0;

	while (n + 1 < len && !(bytes[n] == '\r' && bytes[n + 1] == '\n'))
		n++;
	REQUIRE(n + 1 < len);
	return n;
}

/* The end of a body that is known to be good. */
static size_t simple_end(const uint8_t *bytes, size_t len)
{
	size_t at = 0;

	for (;;) {
		unsigned long long size = strtoull((const char *)bytes + at, NULL, 16);

		at += line_len(bytes + at, len - at) + 2;
		if (size == 0)
			break;
		REQUIRE(size <= len - at);
		at += (size_t)size;
		REQUIRE(bytes[at] == '\r' && bytes[at + 1] == '\n');
		at += 2;
	}
	for (;;) {
		size_t line = line_len(bytes + at, len - at);

		if (line == 0)
			return at + 2;
		REQUIRE(strncasecmp((const char *)bytes + at, "host:", 5) != 0);
		REQUIRE(strncasecmp((const char *)bytes + at, "location:", 9) != 0);
		REQUIRE(memchr(bytes + at, ':', line) != NULL && bytes[at] != ' ' &&
			bytes[at] != ':');
		at += line + 2;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct http1_framing framing = { HTTP1_CHUNKED, 0 };
	struct http1_body whole, pieces;
	size_t whole_len, passed = 0, have = 0, step, piece;
	enum parsed r_whole, r = PARSED_MORE;

	if (size < 2)
		return 0;
	piece = 1u + data[0] % 64;
	data++;
	size--;
	http1_body_start(&whole, &framing);
	http1_body_start(&pieces, &framing);
	r_whole = http1_body_advance(&whole, data, size, &whole_len);
	while (r == PARSED_MORE && have < size) {
		uint8_t *block;

		have = size - have < piece ? size : have + piece;
		block = exact_copy(data + passed, have - passed);
		r = http1_body_advance(&pieces, block, have - passed, &step);
		free(block);
		REQUIRE(step <= have - passed);
		passed += step;
	}
	REQUIRE(r == r_whole && passed == whole_len && pieces.state == whole.state);
	if (r_whole == PARSED_OK) {
		char *copy = calloc(1, whole_len + 1); /* strtoull wants an end */

		REQUIRE(copy != NULL);
		memcpy(copy, data, whole_len);
		REQUIRE(simple_end((uint8_t *)copy, whole_len) == whole_len);
		free(copy);
	}
	return 0;
}
