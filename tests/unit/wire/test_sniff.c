/* First bytes to what they are: decided as soon as it can be, never later than a few bytes. */
#include <criterion/criterion.h>

#include "hex.h"
#include "wire/sniff.h"

static const struct {
	const char *bytes;
	size_t decided_at; /* bytes after which there is an answer */
	enum sniff_kind kind;
} rows[] = {
	{ "\x16\x03\x01\x02", 2, SNIFF_TLS },
	{ "\x16\x02\x01\x02", 2, SNIFF_OTHER },
	{ "\x15\x03\x01", 1, SNIFF_OTHER },
	{ "SSH-2.0-OpenSSH_9.2\r\n", 8, SNIFF_SSH },
	{ "SSH-1.99-old\r\n", 5, SNIFF_OTHER },
	{ "SSH-2.1-x\r\n", 7, SNIFF_OTHER },
	{ "SSH / HTTP/1.1\r\n", 4, SNIFF_HTTP },
	{ "SEARCH / HTTP/1.1\r\n", 2, SNIFF_HTTP },
	{ "GET / HTTP/1.1\r\n", 1, SNIFF_HTTP },
	{ "G\tT / HTTP/1.1\r\n", 1, SNIFF_HTTP },
	{ "get / HTTP/1.1\r\n", 1, SNIFF_HTTP },
	{ "AAAAAAAAAAAAAAAAAAAAAAAAAAAA", 1, SNIFF_HTTP },
	{ "PRI * HTTP/2.0\r\n", 1, SNIFF_HTTP },
	{ "@RSYNCD: 31.0\n", 1, SNIFF_OTHER },
	{ "[x", 1, SNIFF_OTHER },
	{ "`x", 1, SNIFF_OTHER },
	{ "{}", 1, SNIFF_OTHER },
	{ "\r\nGET / HTTP/1.1\r\n", 1, SNIFF_OTHER },
	{ " GET / HTTP/1.1\r\n", 1, SNIFF_OTHER },
	{ "\x05\x01\x00", 1, SNIFF_OTHER },
	{ "\x80\x2e\x01\x03\x01", 1, SNIFF_OTHER },
	{ "\xff", 1, SNIFF_OTHER },
};

Test(sniff, each_flow_is_told_by_its_first_bytes_and_not_one_more)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = strlen(rows[i].bytes);

		for (size_t n = 0; n <= len; n++) {
			uint8_t *block = exact_copy(rows[i].bytes, n);
			enum sniff_kind kind = SNIFF_COUNT;
			enum parsed r = sniff_first_bytes(block, n, &kind);

			cr_assert_eq(r, n < rows[i].decided_at ? PARSED_MORE : PARSED_OK,
				     "row %zu, %zu bytes", i, n);
			cr_assert_eq(kind, n < rows[i].decided_at ? SNIFF_COUNT : rows[i].kind,
				     "row %zu, %zu bytes", i, n);
			free(block);
		}
	}
}

Test(sniff, a_first_byte_that_is_no_letter_and_no_handshake_is_other)
{
	for (unsigned first = 0; first < 256; first++) {
		uint8_t byte = (uint8_t)first;
		enum sniff_kind kind = SNIFF_COUNT;
		bool letter = (first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z');
		enum parsed r = sniff_first_bytes(&byte, 1, &kind);

		cr_assert_eq(r, first == 0x16 || first == 'S' ? PARSED_MORE : PARSED_OK);
		if (r == PARSED_OK)
			cr_assert_eq(kind, letter ? SNIFF_HTTP : SNIFF_OTHER);
	}
}
