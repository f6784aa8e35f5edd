/*
 * ClientHellos and what may precede a second one, and the server's first record. The first byte
 * picks the reader, the second a cut and a record size. What was read is the same whatever follows,
 * the same in other records, and its name is in it.
 */
#include <strings.h>

#include "require.h"
#include "wire/tls_hello.h"

#define CUT_RECORDS_MAX 4000

static enum parsed read_with(unsigned reader, const uint8_t *bytes, size_t len,
			     struct tls_hello *out_hello)
{
	enum tls_hello_fault fault = TLS_HELLO_MALFORMED;
	enum parsed r;

	memset(out_hello, 0, sizeof(*out_hello));
	r = reader == 0 ? tls_hello_read(bytes, len, out_hello, &fault)
			: tls_hello_read_second(bytes, len, out_hello, &fault);
	if (r == PARSED_MORE)
		REQUIRE(len < TLS_HELLO_MAX);
	if (r == PARSED_BAD && fault == TLS_HELLO_NOT_TLS)
		REQUIRE(reader == 0 && bytes[0] != 22);
	return r;
}

static void require_same(const struct tls_hello *a, const struct tls_hello *b)
{
	REQUIRE(a->sni == b->sni && a->offers_tls12 == b->offers_tls12 && a->has_ech == b->has_ech);
	REQUIRE(a->offers_early_data == b->offers_early_data);
	REQUIRE(a->sni != TLS_HELLO_SNI_NAME || dname_equal(&a->name, &b->name));
}

/* The handshake bytes of the records from `bytes` on; other records are left out. */
static size_t without_headers(const uint8_t *bytes, size_t len, uint8_t *out_message)
{
	size_t message_len = 0;

	for (size_t at = 0; at < len;) {
		size_t record_len = (size_t)bytes[at + 3] << 8 | bytes[at + 4];

		if (bytes[at] == 22) {
			memcpy(out_message + message_len, bytes + at + 5, record_len);
			message_len += record_len;
		}
		at += 5 + record_len;
	}
	return message_len;
}

static void check_in_other_records(const struct tls_hello *hello, const uint8_t *message,
				   size_t len, size_t record_len)
{
	uint8_t *records = malloc(len * 6 + 5);
	size_t at = 0;
	struct tls_hello again;

	REQUIRE(records != NULL);
	if (len / record_len > CUT_RECORDS_MAX || record_len > 16384)
		record_len = 16384;
	for (size_t from = 0; from < len; from += record_len) {
		size_t step = len - from < record_len ? len - from : record_len;

		memcpy(records + at, "\x16\x03\x01", 3);
		records[at + 3] = (uint8_t)(step >> 8);
		records[at + 4] = (uint8_t)step;
		memcpy(records + at + 5, message + from, step);
		at += 5 + step;
	}
	if (at <= TLS_HELLO_MAX) {
		REQUIRE(read_with(0, records, at, &again) == PARSED_OK && again.len == at);
		require_same(hello, &again);
	}
	free(records);
}

static void check_hello(unsigned reader, const struct tls_hello *hello, const uint8_t *bytes,
			size_t len, uint8_t by)
{
	struct tls_hello again;
	struct dname name;
	uint8_t *message;
	size_t message_len;
	bool found = false;

	REQUIRE(hello->len <= len && hello->len <= TLS_HELLO_MAX);
	REQUIRE(read_with(reader, bytes, hello->len, &again) == PARSED_OK &&
		again.len == hello->len);
	require_same(hello, &again);
	REQUIRE(read_with(reader, bytes, hello->len - 1, &again) == PARSED_MORE);
	message = malloc(hello->len);
	REQUIRE(message != NULL);
	message_len = without_headers(bytes, hello->len, message);
	check_in_other_records(hello, message, message_len, 1u + by);
	if (hello->sni == TLS_HELLO_SNI_NAME) {
		REQUIRE(dname_parse(text_of(hello->name.text), DNAME_FINAL_DOT_REFUSE, &name) ==
			DNAME_OK);
		REQUIRE(dname_equal(&name, &hello->name));
		for (size_t at = 0; at + name.len <= message_len && !found; at++)
			found = strncasecmp((char *)message + at, name.text, name.len) == 0;
		REQUIRE(found);
	}
	free(message);
}

static void check_answer(const uint8_t *bytes, size_t len, size_t cut)
{
	enum tls_first_answer whole = TLS_ANSWER_OTHER, part = TLS_ANSWER_OTHER;
	enum parsed r = tls_hello_read_answer(bytes, len, &whole);
	uint8_t *block = exact_copy(bytes, cut);
	enum parsed r_part = tls_hello_read_answer(block, cut, &part);

	REQUIRE(r != PARSED_BAD && (r_part == PARSED_MORE || (r == r_part && whole == part)));
	if (whole != TLS_ANSWER_OTHER)
		REQUIRE(len >= 43 && (bytes[0] == 22 || bytes[0] == 20));
	free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tls_hello whole, part;
	enum parsed r, r_part;
	uint8_t *block;
	size_t cut;
	unsigned reader;

	if (size < 2)
		return 0;
	reader = data[0] % 3;
	cut = cut_at(size - 2, data[1]);
	if (reader == 2) {
		check_answer(data + 2, size - 2, cut);
		return 0;
	}
	r = read_with(reader, data + 2, size - 2, &whole);
	block = exact_copy(data + 2, cut);
	r_part = read_with(reader, block, cut, &part);
	REQUIRE(r_part == PARSED_MORE || r_part == r);
	if (r_part == PARSED_OK)
		require_same(&whole, &part);
	if (r == PARSED_OK)
		check_hello(reader, &whole, data + 2, size - 2, data[1]);
	free(block);
	return 0;
}
