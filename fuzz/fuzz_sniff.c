/* First bytes: an answer stays whatever follows, there is one within 24 bytes, and each kind has
 * its look. */
#include "require.h"
#include "wire/sniff.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum sniff_kind kind = SNIFF_COUNT;
	enum parsed before = PARSED_MORE;

	for (size_t n = 0; n <= size && n <= 32; n++) {
		enum sniff_kind now = SNIFF_COUNT;
		enum parsed r = sniff_first_bytes(data, n, &now);

		REQUIRE(r != PARSED_BAD && (r == PARSED_OK || n < 24));
		REQUIRE(before == PARSED_MORE || (r == PARSED_OK && now == kind));
		before = r;
		kind = now;
	}
	if (kind == SNIFF_TLS)
		REQUIRE(data[0] == 22 && data[1] == 3);
	if (kind == SNIFF_SSH)
		REQUIRE(size >= 8 && memcmp(data, "SSH-2.0-", 8) == 0);
	if (kind == SNIFF_HTTP)
		REQUIRE((data[0] | 0x20) >= 'a' && (data[0] | 0x20) <= 'z');
	return 0;
}
