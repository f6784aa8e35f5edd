/* SOCKS5 messages: whole or not at all, in any chunking, with every fault named. */
#include <criterion/criterion.h>

#include "hex.h"
#include "wire/socks5.h"

#define GREETING "05 03 00 01 02"
#define CREDENTIALS "01 06 6c6561736531 03 007077"
#define REQUEST_NAME "05 01 00 03 0c 616c6c6f7765642e74657374 01bb"
#define REQUEST_V4 "05 01 00 01 c0000201 1f90"
#define REQUEST_V6 "05 01 00 04 20010db8000000000000000000000001 0016"

enum message { GREETING_MESSAGE, CREDENTIALS_MESSAGE, REQUEST_MESSAGE };

static const struct {
	enum message message;
	const char *hex;
} good[] = {
	{ GREETING_MESSAGE, GREETING },
	{ GREETING_MESSAGE, "05 00" },
	{ GREETING_MESSAGE, "05 01 00" },
	{ CREDENTIALS_MESSAGE, CREDENTIALS },
	{ CREDENTIALS_MESSAGE, "01 00 00" },
	{ REQUEST_MESSAGE, REQUEST_NAME },
	{ REQUEST_MESSAGE, REQUEST_V4 },
	{ REQUEST_MESSAGE, REQUEST_V6 },
	{ REQUEST_MESSAGE, "05 01 00 03 00 01bb" },
};

static enum parsed take(enum message message, struct cursor *in, enum socks5_fault *out_fault)
{
	struct socks5_greeting greeting;
	struct socks5_credentials credentials;
	struct socks5_request request;

	switch (message) {
	case GREETING_MESSAGE:
		return socks5_take_greeting(in, &greeting, out_fault);
	case CREDENTIALS_MESSAGE:
		return socks5_take_credentials(in, &credentials, out_fault);
	default:
		return socks5_take_request(in, &request, out_fault);
	}
}

Test(socks5, every_prefix_of_a_message_wants_more_and_consumes_nothing)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		uint8_t bytes[300];
		size_t len = hex_bytes(good[i].hex, bytes);

		for (size_t n = 0; n <= len; n++) {
			uint8_t *block = exact_copy(bytes, n);
			struct cursor in = cursor_over(block, n);
			enum socks5_fault fault = SOCKS5_FAULT_NONE;
			enum parsed r = take(good[i].message, &in, &fault);

			cr_assert_eq(r, n == len ? PARSED_OK : PARSED_MORE, "row %zu, %zu bytes", i,
				     n);
			cr_assert_eq(cursor_left(&in), 0 + (n == len ? 0 : n));
			cr_assert_eq(fault, SOCKS5_FAULT_NONE);
			free(block);
		}
	}
}

Test(socks5, a_counted_message_that_runs_short_is_malformed)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		uint8_t bytes[300];
		size_t len = hex_bytes(good[i].hex, bytes);

		for (size_t n = 0; n < len; n++) {
			struct cursor in = cursor_over_whole(bytes, n);
			enum socks5_fault fault = SOCKS5_FAULT_NONE;

			cr_assert_eq(take(good[i].message, &in, &fault), PARSED_BAD);
			cr_assert_eq(fault, SOCKS5_FAULT_MALFORMED);
			cr_assert_eq(cursor_left(&in), n);
		}
	}
}

Test(socks5, only_the_exact_version_byte_begins_a_message)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		uint8_t bytes[300];
		size_t len = hex_bytes(good[i].hex, bytes);
		uint8_t right = bytes[0];

		for (unsigned v = 0; v < 256; v++) {
			struct cursor in = cursor_over(bytes, v % 2 ? len : 1);
			enum socks5_fault fault = SOCKS5_FAULT_NONE;
			enum parsed r;

			bytes[0] = (uint8_t)v;
			r = take(good[i].message, &in, &fault);
			if (v == right)
				continue;
			cr_assert_eq(r, PARSED_BAD);
			cr_assert_eq(fault, SOCKS5_FAULT_VERSION);
		}
	}
}

Test(socks5, a_pipelined_handshake_is_taken_message_by_message)
{
	uint8_t bytes[600];
	size_t len = hex_bytes(GREETING CREDENTIALS REQUEST_NAME "16 03 01", bytes);
	struct cursor in = cursor_over(bytes, len);
	struct socks5_greeting greeting;
	struct socks5_credentials credentials;
	struct socks5_request request;
	enum socks5_fault fault;

	cr_assert_eq(socks5_take_greeting(&in, &greeting, &fault), PARSED_OK);
	cr_assert_eq(greeting.method_count, 3);
	cr_assert(greeting.offers_none && greeting.offers_password);
	cr_assert_eq(socks5_take_credentials(&in, &credentials, &fault), PARSED_OK);
	cr_assert(text_is(credentials.user, "lease1"));
	cr_assert(text_equal(credentials.password, (struct text){ "\0pw", 3 }));
	cr_assert_eq(socks5_take_request(&in, &request, &fault), PARSED_OK);
	cr_assert_eq(request.command, SOCKS5_COMMAND_CONNECT);
	cr_assert_eq(request.host, SOCKS5_HOST_NAME);
	cr_assert(text_is(request.name, "allowed.test"));
	cr_assert_eq(request.port, 443);
	cr_assert_eq(cursor_left(&in), 3, "the first bytes of the stream stay");
}

Test(socks5, a_greeting_notes_only_what_was_offered)
{
	static const struct {
		const char *hex;
		unsigned count;
		bool none, password;
	} rows[] = {
		{ "05 00", 0, false, false },	  { "05 01 01", 1, false, false },
		{ "05 01 00", 1, true, false },	  { "05 01 02", 1, false, true },
		{ "05 02 02 00", 2, true, true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint8_t bytes[16];
		struct cursor in = cursor_over(bytes, hex_bytes(rows[i].hex, bytes));
		struct socks5_greeting greeting;
		enum socks5_fault fault;

		cr_assert_eq(socks5_take_greeting(&in, &greeting, &fault), PARSED_OK);
		cr_assert_eq(greeting.method_count, rows[i].count);
		cr_assert_eq(greeting.offers_none, rows[i].none);
		cr_assert_eq(greeting.offers_password, rows[i].password);
	}
}

Test(socks5, a_request_carries_addresses_as_octets)
{
	uint8_t bytes[64];
	struct cursor in = cursor_over(bytes, hex_bytes(REQUEST_V4 REQUEST_V6, bytes));
	struct socks5_request request;
	enum socks5_fault fault;
	char text[ADDR_TEXT_MAX];

	cr_assert_eq(socks5_take_request(&in, &request, &fault), PARSED_OK);
	cr_assert_eq(request.host, SOCKS5_HOST_ADDRESS);
	cr_assert_str_eq(addr_print(&request.addr, text), "192.0.2.1");
	cr_assert_eq(request.port, 8080);
	cr_assert_eq(socks5_take_request(&in, &request, &fault), PARSED_OK);
	cr_assert_eq(request.host, SOCKS5_HOST_ADDRESS);
	cr_assert_str_eq(addr_print(&request.addr, text), "2001:db8::1");
	cr_assert_eq(request.port, 22);
}

Test(socks5, names_of_every_length_are_handed_on_unread)
{
	for (unsigned len = 0; len <= 255; len++) {
		uint8_t bytes[300] = { 5, 1, 0, 3, (uint8_t)len };
		struct cursor in = cursor_over(bytes, 5 + len + 2);
		struct socks5_request request;
		enum socks5_fault fault;

		for (unsigned i = 0; i < len; i++)
			bytes[5 + i] = (uint8_t)(i ^ len);
		cr_assert_eq(socks5_take_request(&in, &request, &fault), PARSED_OK);
		cr_assert_eq(request.name.len, len);
		cr_assert_eq(memcmp(request.name.at, bytes + 5, len), 0);
		cr_assert_eq(request.port, 0);
		cr_assert_eq(cursor_left(&in), 0);
	}
}

Test(socks5, a_reserved_byte_other_than_zero_is_malformed)
{
	for (unsigned rsv = 1; rsv < 256; rsv++) {
		uint8_t bytes[3] = { 5, 1, (uint8_t)rsv };
		struct cursor in = cursor_over(bytes, sizeof(bytes));
		struct socks5_request request;
		enum socks5_fault fault = SOCKS5_FAULT_NONE;

		cr_assert_eq(socks5_take_request(&in, &request, &fault), PARSED_BAD);
		cr_assert_eq(fault, SOCKS5_FAULT_MALFORMED);
	}
}

Test(socks5, an_unknown_address_type_is_refused_without_waiting)
{
	for (unsigned atyp = 0; atyp < 256; atyp++) {
		uint8_t bytes[4] = { 5, 1, 0, (uint8_t)atyp };
		struct cursor in = cursor_over(bytes, sizeof(bytes));
		struct socks5_request request;
		enum socks5_fault fault = SOCKS5_FAULT_NONE;
		enum parsed r = socks5_take_request(&in, &request, &fault);

		if (atyp == 1 || atyp == 3 || atyp == 4) {
			cr_assert_eq(r, PARSED_MORE);
			continue;
		}
		cr_assert_eq(r, PARSED_BAD);
		cr_assert_eq(fault, SOCKS5_FAULT_ADDRESS_TYPE);
	}
}

Test(socks5, every_command_is_handed_on)
{
	for (unsigned command = 0; command < 256; command++) {
		uint8_t bytes[] = { 5, (uint8_t)command, 0, 1, 127, 0, 0, 1, 0, 80 };
		struct cursor in = cursor_over(bytes, sizeof(bytes));
		struct socks5_request request;
		enum socks5_fault fault;

		cr_assert_eq(socks5_take_request(&in, &request, &fault), PARSED_OK);
		cr_assert_eq(request.command, command);
	}
}

static void assert_hex(const uint8_t *bytes, size_t len, const char *hex)
{
	uint8_t want[64];
	size_t want_len = hex_bytes(hex, want);

	cr_assert_eq(len, want_len, "%zu bytes, not %zu", len, want_len);
	cr_assert_eq(memcmp(bytes, want, len), 0, "%s", hex);
}

Test(socks5, replies_are_these_bytes)
{
	static const uint8_t v4[4] = { 192, 0, 2, 7 };
	static const uint8_t v6[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 9 };
	struct endpoint bound4 = { addr_v4(v4), 0x1234 }, bound6 = { addr_v6(v6), 443 };
	struct endpoint none = { .port = 7 };
	uint8_t out[SOCKS5_REPLY_MAX];

	assert_hex(out, socks5_put_method(0xff, out), "05ff");
	assert_hex(out, socks5_put_method(0x02, out), "0502");
	assert_hex(out, socks5_put_auth_status(true, out), "0100");
	assert_hex(out, socks5_put_auth_status(false, out), "0101");
	assert_hex(out, socks5_put_reply(2, NULL, out), "05 02 00 01 00000000 0000");
	assert_hex(out, socks5_put_reply(1, &none, out), "05 01 00 01 00000000 0000");
	assert_hex(out, socks5_put_reply(0, &bound4, out), "05 00 00 01 c0000207 1234");
	assert_hex(out, socks5_put_reply(0, &bound6, out),
		   "05 00 00 04 20010db8000000000000000000000009 01bb");
}

Test(socks5, foreign_clients_hear_their_own_language)
{
	for (unsigned first = 0; first < 256; first++) {
		uint8_t byte = (uint8_t)first;
		struct text answer = socks5_foreign_answer(&byte, 1);

		if (first == 0x04)
			assert_hex((const uint8_t *)answer.at, answer.len, "005b 0000 00000000");
		else if ((first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z'))
			cr_assert_eq(strncmp(answer.at, "HTTP/1.1 501 ", 13), 0);
		else
			cr_assert_eq(answer.len, 0);
	}
	cr_assert_eq(socks5_foreign_answer(NULL, 0).len, 0);
}

Test(socks5, the_answer_to_http_is_complete_and_names_the_right_scheme)
{
	struct text answer = socks5_foreign_answer((const uint8_t *)"GET ", 4);
	char copy[512] = { 0 };
	char *body;
	unsigned long length;

	cr_assert_lt(answer.len, sizeof(copy));
	memcpy(copy, answer.at, answer.len);
	body = strstr(copy, "\r\n\r\n");
	cr_assert_not_null(body);
	cr_assert_not_null(strstr(copy, "\r\nConnection: close\r\n"));
	cr_assert_not_null(strstr(body, "socks5h://"));
	length = strtoul(strstr(copy, "Content-Length: ") + 16, NULL, 10);
	cr_assert_eq(strlen(body + 4), length);
	cr_assert_eq(answer.len, strlen(copy));
}

Test(socks5, one_changed_byte_never_makes_it_read_too_far)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		uint8_t bytes[300];
		size_t len = hex_bytes(good[i].hex, bytes);

		for (size_t at = 0; at < len; at++) {
			for (unsigned v = 0; v < 256; v++) {
				uint8_t *block = exact_copy(bytes, len);
				struct cursor in = cursor_over(block, len);
				enum socks5_fault fault = SOCKS5_FAULT_NONE;
				enum parsed r;

				block[at] = (uint8_t)v;
				r = take(good[i].message, &in, &fault);
				cr_assert_eq(r == PARSED_BAD, fault != SOCKS5_FAULT_NONE);
				cr_assert(r == PARSED_OK || cursor_left(&in) == len);
				free(block);
			}
		}
	}
}
