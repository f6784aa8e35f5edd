/* HTTP/1 heads: one plain form passes; what two readers could take differently is refused with the
 * right fault. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "hex.h"
#include "wire/http1.h"

static char text[200000];

static enum parsed read_request(const char *head, struct http1_request *out_request,
				enum http1_fault *out_fault)
{
	struct http1_scan scan = { 0 };

	*out_fault = HTTP1_FAULT_NONE;
	return http1_request_read(&scan, (const uint8_t *)head, strlen(head), out_request,
				  out_fault);
}

static void assert_request(const char *head, enum http1_fault want)
{
	struct http1_request request;
	enum http1_fault fault;
	enum parsed r = read_request(head, &request, &fault);

	cr_assert_eq(r, want == HTTP1_FAULT_NONE ? PARSED_OK : PARSED_BAD, "%s", head);
	cr_assert_eq(fault, want, "%s: %d", head, (int)fault);
}

/* A request with these field lines besides Host. */
static void assert_fields(const char *fields, enum http1_fault want)
{
	snprintf(text, sizeof(text), "POST / HTTP/1.1\r\nHost: plain.test\r\n%s\r\n", fields);
	assert_request(text, want);
}

static enum parsed read_response(const char *head, enum http1_method asked,
				 struct http1_response *out_response)
{
	struct http1_scan scan = { 0 };
	enum http1_fault fault;

	return http1_response_read(&scan, (const uint8_t *)head, strlen(head), asked, out_response,
				   &fault);
}

Test(http1, a_request_head_is_read_part_by_part)
{
	struct http1_request request;
	enum http1_fault fault;
	struct text name, value, rest;

	cr_assert_eq(read_request("GET /a?b HTTP/1.1\r\nhOST: \t plain.test:80 \t\r\nX-Empty:\r\n"
				  "x: a:b \xc3\xa9\tc\r\n\r\nGET /next",
				  &request, &fault),
		     PARSED_OK);
	cr_assert_eq(request.method, HTTP1_METHOD_GET);
	cr_assert_eq(request.form, HTTP1_FORM_ORIGIN);
	cr_assert(text_is(request.method_word, "GET"));
	cr_assert(text_is(request.target, "/a?b"));
	cr_assert(text_is(request.host, "plain.test:80"));
	cr_assert_eq(request.framing.kind, HTTP1_NO_BODY);
	cr_assert(!request.is_last && !request.asks_upgrade && !request.asks_websocket);
	cr_assert_eq(request.len, 69);
	rest = request.fields;
	cr_assert(http1_next_field(&rest, &name, &value));
	cr_assert(text_is(name, "hOST") && text_is(value, "plain.test:80"));
	cr_assert(http1_next_field(&rest, &name, &value));
	cr_assert(text_is(name, "X-Empty") && value.len == 0);
	cr_assert(http1_next_field(&rest, &name, &value));
	cr_assert(text_is(name, "x") && text_is(value, "a:b \xc3\xa9\tc"));
	cr_assert(!http1_next_field(&rest, &name, &value));
}

Test(http1, each_form_of_target_has_its_methods)
{
	static const struct {
		const char *line;
		enum http1_form form;
		bool ok;
	} rows[] = {
		{ "GET /", HTTP1_FORM_ORIGIN, true },
		{ "GET //evil.test/x", HTTP1_FORM_ORIGIN, true }, /* C216 */
		{ "GET /~a", HTTP1_FORM_ORIGIN, true },
		{ "GET /\\x", HTTP1_FORM_ORIGIN, true },
		{ "GET http://plain.test/", HTTP1_FORM_ABSOLUTE, true },
		{ "GET HTTPS://u@x/", HTTP1_FORM_ABSOLUTE, true },
		{ "GET evil.test:80", HTTP1_FORM_ABSOLUTE, true }, /* url_read refuses it */
		{ "OPTIONS *", HTTP1_FORM_ASTERISK, true },
		{ "GET *", 0, false },
		{ "OPTIONS **", 0, false },
		{ "CONNECT evil.test:443", HTTP1_FORM_AUTHORITY, true },
		{ "CONNECT /", HTTP1_FORM_AUTHORITY, true }, /* url_read_host refuses it */
		{ "CONNECT http://x/", HTTP1_FORM_AUTHORITY, true },
		{ "GET evil.test", 0, false },
		{ "GET evil.test/", 0, false },
		{ "GET ?x", 0, false },
		{ "GET \\evil.test/", 0, false },
		{ "GET @evil.test/", 0, false },
		{ "GET ", 0, false },
		{ "CONNECT ", 0, false },
		{ "GET /#x", 0, false },
		{ "GET /\x80", 0, false },
		{ "GET /\xc2\xa0x", 0, false },
		{ "GET /\t", 0, false },
		{ "M-SEARCH /", HTTP1_FORM_ORIGIN, true },
		{ "X /", HTTP1_FORM_ORIGIN, true },
		{ "UPDATE_X2 /", HTTP1_FORM_ORIGIN, true },
		{ "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF /", HTTP1_FORM_ORIGIN, true },
		{ "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG /", 0, false },
		{ "get /", 0, false },
		{ "Head /", 0, false },
		{ "2GET /", 0, false },
		{ "-GET /", 0, false },
		{ "G:T /", 0, false },
		{ "G\tT /", 0, false },
		{ " /", 0, false },
		{ "GET  /", 0, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http1_request request;
		enum http1_fault fault;

		snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: plain.test\r\n\r\n",
			 rows[i].line);
		cr_assert_eq(read_request(text, &request, &fault),
			     rows[i].ok ? PARSED_OK : PARSED_BAD, "%s", rows[i].line);
		if (rows[i].ok)
			cr_assert_eq(request.form, rows[i].form, "%s", rows[i].line);
		else
			cr_assert_eq(fault, HTTP1_FAULT_MALFORMED);
	}
}

Test(http1, lines_that_are_not_plain_are_malformed)
{
	static const char *const heads[] = {
		"GET /\r\nHost: plain.test\r\n\r\n", /* C235 */
		"GET / HTTP/1.2\r\nHost: plain.test\r\n\r\n",
		"GET / HTTP/2.0\r\nHost: plain.test\r\n\r\n",
		"GET / http/1.1\r\nHost: plain.test\r\n\r\n",
		"GET / HTTP/1.1 \r\nHost: plain.test\r\n\r\n",
		"GET / HTTP/1.10\r\nHost: plain.test\r\n\r\n",
		"GET / HTTP/01.1\r\nHost: plain.test\r\n\r\n",
		"GET / x HTTP/1.1\r\nHost: plain.test\r\n\r\n",
		"GET\t/ HTTP/1.1\r\nHost: plain.test\r\n\r\n",
		"\r\nGET / HTTP/1.1\r\nHost: plain.test\r\n\r\n",
		" GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n",
		"GET / HTTP/1.1\nHost: plain.test\n\n", /* C221 */
		"GET / HTTP/1.1\r\nHost: plain.test\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\n\n",
		"GET / HTTP/1.1\nHost: plain.test\r\n\r\n",
		"GET / HTTP/1.1\rHost: plain.test\r\n\r\n",
		"GET / HTTP/1.1\r\r\nHost: plain.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\rX: y\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\n\rX",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nHost : evil.test\r\n\r\n", /* C218 */
		"GET / HTTP/1.1\r\nHost: plain.test\r\nHost\t: evil.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost:\r\n evil.test\r\nHost: plain.test\r\n\r\n", /* C219
										      */
		"GET / HTTP/1.1\r\nHost: plain.test\r\nX: a\r\n\tHost: evil.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nX: a\r\n \r\n\r\n",
		"GET / HTTP/1.1\r\n Host: evil.test\r\nHost: plain.test\r\n\r\n", /* C220 */
		"GET / HTTP/1.1\r\nHost: plain.test\r\n: x\r\nY: z\r\n\r\n", /* C224 */
		"GET / HTTP/1.1\r\nHost: plain.test\r\nNoColon\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nX Y: z\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\n\"X\": z\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nX\x80: z\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nX: a\x01\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nX: a\x0b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nX: a\x7f\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nConnection: a b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nConnection: \"close\"\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\n(X: z\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\n\x80X: z\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nConnection: ;\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"\x16\x03\x01",
	};

	for (size_t i = 0; i < ARRAY_LEN(heads); i++)
		assert_request(heads[i], HTTP1_FAULT_MALFORMED);
}

Test(http1, nul_is_malformed_wherever_it_stands)
{
	static const char head[] = "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n";

	for (size_t at = 0; at < sizeof(head) - 1; at++) {
		struct http1_scan scan = { 0 };
		struct http1_request request;
		enum http1_fault fault = HTTP1_FAULT_NONE;

		memcpy(text, head, sizeof(head));
		text[at] = '\0';
		cr_assert_eq(http1_request_read(&scan, (uint8_t *)text, sizeof(head) - 1, &request,
						&fault),
			     PARSED_BAD, "%zu", at);
		cr_assert_eq(fault, HTTP1_FAULT_MALFORMED);
	}
}

Test(http1, host_is_there_once)
{
	assert_request("GET / HTTP/1.1\r\n\r\n", HTTP1_FAULT_HOST_MISSING); /* C206 */
	assert_request("GET / HTTP/1.0\r\n\r\n", HTTP1_FAULT_HOST_MISSING);
	assert_request("GET http://plain.test/ HTTP/1.1\r\nHosts: plain.test\r\n\r\n",
		       HTTP1_FAULT_HOST_MISSING);
	assert_fields("", HTTP1_FAULT_NONE);
	assert_fields("Host: evil.test\r\n", HTTP1_FAULT_HOST_REPEATED); /* C208 */
	assert_fields("HOST: plain.test\r\n", HTTP1_FAULT_HOST_REPEATED);
	assert_fields("host:\r\n", HTTP1_FAULT_HOST_REPEATED);
	assert_fields("X-Forwarded-Host: evil.test\r\n", HTTP1_FAULT_NONE); /* C238 */
}

Test(http1, a_length_is_one_plain_number)
{
	static const struct {
		const char *fields;
		enum http1_fault fault;
	} rows[] = {
		{ "Content-Length: 5\r\n", HTTP1_FAULT_NONE },
		{ "content-length:5 \r\n", HTTP1_FAULT_NONE },
		{ "Content-Length: 0\r\n", HTTP1_FAULT_NONE },
		{ "Content-Length: 9223372036854775807\r\n", HTTP1_FAULT_NONE },
		{ "Content-Length: 9223372036854775808\r\n", HTTP1_FAULT_FRAMING },
		/* C226 */
		{ "Content-Length: 5\r\nContent-Length: 5\r\n", HTTP1_FAULT_FRAMING },
		{ "Content-Length: 0\r\nContent-Length: 0\r\n", HTTP1_FAULT_FRAMING },
		{ "Content-Length: 5\r\nContent-Length: 6\r\n", HTTP1_FAULT_FRAMING },
		{ "Content-Length: 5, 5\r\n", HTTP1_FAULT_FRAMING },
		{ "Content-Length: +5\r\n", HTTP1_FAULT_FRAMING },
		{ "Content-Length: 5 x\r\n", HTTP1_FAULT_FRAMING },
		{ "Content-Length: -1\r\n", HTTP1_FAULT_FRAMING },
		{ "Content-Length: 0x5\r\n", HTTP1_FAULT_FRAMING },
		{ "Content-Length: 05\r\n", HTTP1_FAULT_FRAMING },
		{ "Content-Length: 99999999999999999999\r\n", HTTP1_FAULT_FRAMING },
		{ "Content-Length:\r\n", HTTP1_FAULT_FRAMING },
		{ "Content-Length: 5;\r\n", HTTP1_FAULT_FRAMING },
		{ "Content_Length: 5\r\n", HTTP1_FAULT_FRAMING },
		{ "Connection: content-length\r\nContent-Length: 5\r\n", HTTP1_FAULT_FRAMING },
		{ "Connection: close, Host\r\n", HTTP1_FAULT_FRAMING },
		{ "Connection: transfer-encoding\r\n", HTTP1_FAULT_FRAMING },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_fields(rows[i].fields, rows[i].fault);
}

Test(http1, a_coding_is_chunked_alone)
{
	static const struct {
		const char *fields;
		enum http1_fault fault;
	} rows[] = {
		{ "Transfer-Encoding: chunked\r\n", HTTP1_FAULT_NONE },
		{ "TRANSFER-encoding:\tchunked \r\n", HTTP1_FAULT_NONE },
		/* C227 */
		{ "Transfer-Encoding: xchunked\r\n", HTTP1_FAULT_FRAMING },
		{ "Transfer-Encoding: chunked, identity\r\n", HTTP1_FAULT_FRAMING },
		{ "Transfer-Encoding: identity\r\n", HTTP1_FAULT_FRAMING },
		{ "Transfer-Encoding: gzip, chunked\r\n", HTTP1_FAULT_FRAMING },
		{ "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		  HTTP1_FAULT_FRAMING },
		{ "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
		  HTTP1_FAULT_FRAMING },
		{ "Transfer-Encoding: Chunked\r\n", HTTP1_FAULT_FRAMING },
		{ "Transfer-Encoding: \"chunked\"\r\n", HTTP1_FAULT_FRAMING },
		{ "Transfer-Encoding: chunked;x\r\n", HTTP1_FAULT_FRAMING },
		{ "Transfer-Encoding: chunked,\r\n", HTTP1_FAULT_FRAMING },
		{ "Transfer-Encoding:\r\n", HTTP1_FAULT_FRAMING },
		{ "Transfer_Encoding: chunked\r\n", HTTP1_FAULT_FRAMING },
		/* C225 */
		{ "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", HTTP1_FAULT_FRAMING },
		{ "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", HTTP1_FAULT_FRAMING },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_fields(rows[i].fields, rows[i].fault);
	assert_request("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
		       HTTP1_FAULT_FRAMING);
	assert_request("CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
		       HTTP1_FAULT_FRAMING);
	assert_request("CONNECT a:1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
		       HTTP1_FAULT_FRAMING);
}

Test(http1, the_first_fault_in_the_order_of_the_reasons_is_told)
{
	assert_request("GET / HTTP/1.1\r\nContent-Length: x\r\nConnection: a b\r\n\r\n",
		       HTTP1_FAULT_MALFORMED);
	assert_request("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", HTTP1_FAULT_FRAMING);
	assert_fields("Host: x\r\nContent-Length: x\r\n", HTTP1_FAULT_FRAMING);
}

Test(http1, framing_connection_and_upgrade_are_told)
{
	static const struct {
		const char *head;
		enum http1_framing_kind framing;
		uint64_t length;
		bool last, continues, upgrade, websocket;
	} rows[] = {
		{ "POST / HTTP/1.1\r\nContent-Length: 12", HTTP1_LENGTH, 12, false, false, false,
		  false },
		{ "GET / HTTP/1.1\r\nContent-Length: 0", HTTP1_NO_BODY, 0, false, false, false,
		  false },
		{ "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked", HTTP1_CHUNKED, 0, false, false,
		  false, false },
		{ "GET / HTTP/1.1\r\nConnection: Close", HTTP1_NO_BODY, 0, true, false, false,
		  false },
		{ "GET / HTTP/1.1\r\nConnection: x,close", HTTP1_NO_BODY, 0, true, false, false,
		  false },
		{ "GET / HTTP/1.1\r\nConnection: , keep-alive ,,", HTTP1_NO_BODY, 0, false, false,
		  false, false },
		{ "GET / HTTP/1.0\r\nX: y", HTTP1_NO_BODY, 0, true, false, false, false },
		{ "GET / HTTP/1.0\r\nConnection: Keep-Alive", HTTP1_NO_BODY, 0, false, false, false,
		  false },
		{ "GET / HTTP/1.0\r\nConnection: keep-alive, close", HTTP1_NO_BODY, 0, true, false,
		  false, false },
		{ "POST / HTTP/1.1\r\nExpect: 100-Continue\r\nExpect: x\r\nContent-Length: 1",
		  HTTP1_LENGTH, 1, false, true, false, false },
		{ "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: WebSocket", HTTP1_NO_BODY, 0,
		  false, false, true, true },
		{ "GET / HTTP/1.1\r\nConnection: keep-alive, upgrade\r\nUpgrade: h2c, websocket",
		  HTTP1_NO_BODY, 0, false, false, true, true },
		{ "GET / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: "
		  "h2c\r\nHTTP2-Settings: AAMA",
		  HTTP1_NO_BODY, 0, false, false, true, false }, /* C231 */
		{ "GET / HTTP/1.1\r\nUpgrade: websocket", HTTP1_NO_BODY, 0, false, false, false,
		  false },
		{ "GET / HTTP/1.1\r\nConnection: upgrade", HTTP1_NO_BODY, 0, false, false, false,
		  false },
		{ "GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: ,", HTTP1_NO_BODY, 0, false,
		  false, false, false },
		{ "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket", HTTP1_NO_BODY, 0,
		  true, false, false, false },
		{ "POST / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket", HTTP1_NO_BODY, 0,
		  false, false, true, false },
		{ "GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: "
		  "3",
		  HTTP1_LENGTH, 3, false, false, true, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http1_request request;
		enum http1_fault fault;

		snprintf(text, sizeof(text), "%s\r\nHost: plain.test\r\n\r\n", rows[i].head);
		cr_assert_eq(read_request(text, &request, &fault), PARSED_OK, "%s", rows[i].head);
		cr_assert_eq(request.framing.kind, rows[i].framing, "%s", rows[i].head);
		cr_assert_eq(request.framing.length, rows[i].length);
		cr_assert_eq(request.is_last, rows[i].last, "%s", rows[i].head);
		cr_assert_eq(request.expects_continue, rows[i].continues);
		cr_assert_eq(request.asks_upgrade, rows[i].upgrade, "%s", rows[i].head);
		cr_assert_eq(request.asks_websocket, rows[i].websocket, "%s", rows[i].head);
	}
}

/* Offer a head one byte more at a time to one scan, and all at once to a fresh one: the results are
 * the same. */
static void assert_same_in_any_pieces(const char *head, bool is_request)
{
	size_t len = strlen(head);
	struct http1_scan scan = { 0 };
	enum parsed before = PARSED_MORE;

	for (size_t n = 0; n <= len; n++) {
		struct http1_scan fresh = { 0 };
		struct http1_request request, again;
		struct http1_response response, response_again;
		enum http1_fault fault = HTTP1_FAULT_NONE, fault_again = HTTP1_FAULT_NONE;
		uint8_t *block = exact_copy(head, n);
		enum parsed r, r_again;

		if (is_request) {
			r = http1_request_read(&scan, block, n, &request, &fault);
			r_again = http1_request_read(&fresh, block, n, &again, &fault_again);
			if (r == PARSED_OK)
				cr_assert_eq(request.len, again.len);
		} else {
			r = http1_response_read(&scan, block, n, HTTP1_METHOD_GET, &response,
						&fault);
			r_again = http1_response_read(&fresh, block, n, HTTP1_METHOD_GET,
						      &response_again, &fault_again);
			if (r == PARSED_OK)
				cr_assert_eq(response.len, response_again.len);
		}
		cr_assert_eq(r, r_again, "%s at %zu", head, n);
		cr_assert_eq(fault, fault_again);
		cr_assert(before == PARSED_MORE || r == before, "%s at %zu", head, n);
		before = r;
		free(block);
	}
	cr_assert_neq(before, PARSED_MORE, "%s", head);
}

Test(http1, pieces_of_any_size_give_the_same_result_and_it_stays)
{
	assert_same_in_any_pieces("GET / HTTP/1.1\r\nHost: plain.test\r\nX: y\r\n\r\nGET / HTT",
				  true);
	assert_same_in_any_pieces(
		"POST http://a/ HTTP/1.0\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", true);
	assert_same_in_any_pieces("GET / HTTP/1.1\r\nHost: plain.test\r\nHost: a\r\n\r\nxx", true);
	assert_same_in_any_pieces("GET /\r\nmore", true);
	assert_same_in_any_pieces("GET / HTTP/1.1\nmore", true);
	assert_same_in_any_pieces("GET / HTTP/1.1\r\nA : b\r\nmore\r\n\r\n", true);
	assert_same_in_any_pieces("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false);
	assert_same_in_any_pieces("HTTP/1.1 302 Found\r\nLocation : x\r\n\r\nabc", false);
	assert_same_in_any_pieces("HTTP/2 200\r\n\r\n", false);
}

Test(http1, a_line_is_judged_when_it_ends_not_when_the_head_does)
{
	assert_request("GET /\r\n", HTTP1_FAULT_MALFORMED);
	assert_request("GET / HTTP/1.1\n", HTTP1_FAULT_MALFORMED);
	assert_request("GET / HTTP/1.1\r\n ", HTTP1_FAULT_MALFORMED);
	assert_request("GET / HTTP/1.1\r\nHost : x\r\n", HTTP1_FAULT_MALFORMED);
}

Test(http1, a_head_has_a_most_of_bytes_and_of_lines)
{
	struct http1_request request;
	enum http1_fault fault;

	for (size_t over = 0; over <= 1; over++) {
		struct http1_scan scan = { 0 };
		size_t len =
			(size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\nX: ");

		memset(text + len, 'x', HTTP1_HEAD_MAX + over - len - 4);
		memcpy(text + HTTP1_HEAD_MAX + over - 4, "\r\n\r\n", 4);
		cr_assert_eq(http1_request_read(&scan, (uint8_t *)text, HTTP1_HEAD_MAX - 1,
						&request, &fault),
			     PARSED_MORE);
		cr_assert_eq(http1_request_read(&scan, (uint8_t *)text, HTTP1_HEAD_MAX + over,
						&request, &fault),
			     over ? PARSED_BAD : PARSED_OK);
		if (!over)
			cr_assert_eq(request.len, HTTP1_HEAD_MAX);
		else
			cr_assert_eq(fault, HTTP1_FAULT_MALFORMED);
	}
	for (size_t count = HTTP1_FIELDS_MAX; count <= HTTP1_FIELDS_MAX + 1; count++) {
		size_t len = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\n");

		for (size_t i = 1; i < count; i++)
			len += (size_t)snprintf(text + len, 8, "X: y\r\n");
		snprintf(text + len, 8, "\r\n");
		assert_request(text,
			       count > HTTP1_FIELDS_MAX ? HTTP1_FAULT_MALFORMED : HTTP1_FAULT_NONE);
	}
}

Test(http1, one_changed_byte_of_a_request_is_refused_or_seen)
{
	static const char head[] =
		"GET /a HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 3\r\n\r\n";
	const size_t len = sizeof(head) - 1;

	for (size_t at = 0; at < len; at++) {
		for (unsigned v = 0; v < 256; v++) {
			uint8_t *block = exact_copy(head, len);
			struct http1_scan scan = { 0 };
			struct http1_request request;
			enum http1_fault fault = HTTP1_FAULT_NONE;
			enum parsed r;

			block[at] = (uint8_t)v;
			r = http1_request_read(&scan, block, len, &request, &fault);
			if (r == PARSED_OK) {
				cr_assert_eq(request.len, len);
				cr_assert(request.host.at >= (char *)block + 22 &&
					  request.host.at + request.host.len <= (char *)block + 33);
				cr_assert(request.host.len >= 9);
			}
			cr_assert_eq(r == PARSED_BAD, fault != HTTP1_FAULT_NONE);
			free(block);
		}
	}
}

Test(http1, a_status_line_is_one_of_two_versions_and_three_digits)
{
	static const struct {
		const char *line;
		unsigned status; /* 0: refused */
	} rows[] = {
		{ "HTTP/1.1 200 OK", 200 }, { "HTTP/1.0 404 Not Found", 404 },
		{ "HTTP/1.1 200 ", 200 },   { "HTTP/1.1 200", 200 },
		{ "HTTP/1.1 999 x", 999 },  { "HTTP/1.1 100 Continue", 100 },
		{ "HTTP/1.1 099 x", 0 },    { "HTTP/1.1 20 x", 0 },
		{ "HTTP/1.1 2000 x", 0 },   { "HTTP/1.1  200 x", 0 },
		{ "HTTP/1.1 +20 x", 0 },    { "HTTP/1.1 20x", 0 },
		{ "HTTP/1.1", 0 },	    { "HTTP/1.1 ", 0 },
		{ "HTTP/2 200 OK", 0 },	    { "HTTP/1.2 200 OK", 0 },
		{ "http/1.1 200 OK", 0 },   { "ICY 200 OK", 0 },
		{ "GET / HTTP/1.1", 0 },    { " HTTP/1.1 200 OK", 0 },
		{ "HTTP/1.1\t200 OK", 0 },  { "HTTP/1.1 200 \xc3\xa9", 200 },
		{ "HTTP/1.1 000 x", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http1_response response;

		snprintf(text, sizeof(text), "%s\r\nContent-Length: 0\r\n\r\n", rows[i].line);
		cr_assert_eq(read_response(text, HTTP1_METHOD_GET, &response),
			     rows[i].status ? PARSED_OK : PARSED_BAD, "%s", rows[i].line);
		if (rows[i].status)
			cr_assert_eq(response.status, rows[i].status);
	}
}

Test(http1, the_body_of_a_response_ends_where_the_standard_says)
{
	static const struct {
		enum http1_method asked;
		unsigned status;
		const char *fields;
		enum http1_framing_kind framing;
		uint64_t length;
		bool last;
	} rows[] = {
		{ HTTP1_METHOD_GET, 200, "Content-Length: 7\r\n", HTTP1_LENGTH, 7, false },
		{ HTTP1_METHOD_GET, 200, "Content-Length: 0\r\n", HTTP1_NO_BODY, 0, false },
		{ HTTP1_METHOD_OTHER, 200, "Transfer-Encoding: chunked\r\n", HTTP1_CHUNKED, 0,
		  false },
		{ HTTP1_METHOD_GET, 200, "", HTTP1_UNTIL_CLOSE, 0, true },
		{ HTTP1_METHOD_GET, 302, "", HTTP1_UNTIL_CLOSE, 0, true },
		{ HTTP1_METHOD_GET, 205, "", HTTP1_UNTIL_CLOSE, 0, true },
		{ HTTP1_METHOD_GET, 200, "Content-Length: 7\r\nConnection: close\r\n", HTTP1_LENGTH,
		  7, true },
		{ HTTP1_METHOD_HEAD, 200, "Content-Length: 7\r\n", HTTP1_NO_BODY, 0, false },
		{ HTTP1_METHOD_HEAD, 200, "Transfer-Encoding: chunked\r\n", HTTP1_NO_BODY, 0,
		  false },
		{ HTTP1_METHOD_HEAD, 404, "", HTTP1_NO_BODY, 0, false },
		{ HTTP1_METHOD_GET, 204, "", HTTP1_NO_BODY, 0, false },
		{ HTTP1_METHOD_GET, 204, "Content-Length: 0\r\n", HTTP1_NO_BODY, 0, false },
		{ HTTP1_METHOD_GET, 304, "Content-Length: 70\r\n", HTTP1_NO_BODY, 0, false },
		{ HTTP1_METHOD_GET, 304, "", HTTP1_NO_BODY, 0, false },
		{ HTTP1_METHOD_GET, 100, "", HTTP1_NO_BODY, 0, false },
		{ HTTP1_METHOD_GET, 101, "", HTTP1_NO_BODY, 0, false },
		{ HTTP1_METHOD_CONNECT, 200, "", HTTP1_UNTIL_CLOSE, 0, true },
		{ HTTP1_METHOD_CONNECT, 200, "Content-Length: 7\r\n", HTTP1_UNTIL_CLOSE, 0, true },
		{ HTTP1_METHOD_CONNECT, 403, "Content-Length: 7\r\n", HTTP1_LENGTH, 7, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http1_response response;

		snprintf(text, sizeof(text), "HTTP/1.1 %u x\r\n%s\r\n", rows[i].status,
			 rows[i].fields);
		cr_assert_eq(read_response(text, rows[i].asked, &response), PARSED_OK, "row %zu",
			     i);
		cr_assert_eq(response.framing.kind, rows[i].framing, "row %zu", i);
		cr_assert_eq(response.framing.length, rows[i].length);
		cr_assert_eq(response.is_last, rows[i].last, "row %zu", i);
		cr_assert_eq(response.is_interim, rows[i].status == 100);
	}
	snprintf(text, sizeof(text), "HTTP/1.0 200 x\r\nContent-Length: 1\r\n\r\n");
	for (unsigned keep = 0; keep <= 1; keep++) {
		struct http1_response response;

		cr_assert_eq(read_response(text, HTTP1_METHOD_GET, &response), PARSED_OK);
		cr_assert_eq(response.is_last, !keep);
		snprintf(text, sizeof(text),
			 "HTTP/1.0 200 x\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n");
	}
}

Test(http1, a_response_with_a_doubtful_end_or_two_ways_to_go_is_refused)
{
	static const char *const heads[] = {
		/* C259 */
		"HTTP/1.1 302 x\r\nContent-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 302 x\r\nContent-Length: 10\r\nContent-Length: 10\r\n\r\n",
		"HTTP/1.1 200 x\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.0 200 x\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 103 x\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 304 x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
		/* C258 */
		"HTTP/1.1 302 x\r\nLocation:\r\n http://evil.test/\r\n\r\n",
		"HTTP/1.1 302 x\r\nLocation : http://evil.test/\r\n\r\n",
		"HTTP/1.1 302 x\r\nLocation: /a\r\nLocation: /b\r\n\r\n",
		"HTTP/1.1 200 x\r\nLocation: /a\r\nlocation: /a\r\n\r\n",
		"HTTP/1.1 200 x\r\nRefresh: 0\r\nRefresh: 0; url=/x\r\n\r\n",
		"HTTP/1.1 200 x\nContent-Length: 0\r\n\r\n",
		"\r\nHTTP/1.1 200 x\r\n\r\n",
	};

	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		struct http1_response response;

		cr_assert_eq(read_response(heads[i], HTTP1_METHOD_GET, &response), PARSED_BAD, "%s",
			     heads[i]);
	}
}

Test(http1, where_a_response_leads_is_told_as_it_was_sent)
{
	struct http1_response response;

	cr_assert_eq(
		read_response("HTTP/1.1 302 x\r\nlocation: \thttp://evil.test/ \r\nRefresh: 0\r\n"
			      "Alt-Svc: h2=\"evil.test:443\"\r\nContent-Location: /x\r\n\r\n",
			      HTTP1_METHOD_GET, &response),
		PARSED_OK);
	cr_assert(response.has_location && text_is(response.location, "http://evil.test/"));
	cr_assert(response.has_refresh && text_is(response.refresh, "0"));
	cr_assert_eq(
		read_response("HTTP/1.1 302 x\r\nLocation:\r\n\r\n", HTTP1_METHOD_GET, &response),
		PARSED_OK);
	cr_assert(response.has_location && response.location.len == 0 && !response.has_refresh);
	cr_assert_eq(read_response("HTTP/1.1 200 x\r\n\r\n", HTTP1_METHOD_GET, &response),
		     PARSED_OK);
	cr_assert(!response.has_location);
}

Test(http1, only_a_plain_101_switches_to_websocket)
{
	static const struct {
		const char *head;
		bool switches;
	} rows[] = {
		{ "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n", true },
		{ "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", false },
		{ "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n",
		  false },
		{ "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: "
		  "h2c\r\n\r\n",
		  false },
		{ "HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n", false },
		{ "HTTP/1.1 101 x\r\nConnection: Upgrade\r\n\r\n", false },
		{ "HTTP/1.0 101 x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", false },
		{ "HTTP/1.1 200 x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", false },
		{ "HTTP/1.1 100 x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http1_response response;

		cr_assert_eq(read_response(rows[i].head, HTTP1_METHOD_GET, &response), PARSED_OK,
			     "%s", rows[i].head);
		cr_assert_eq(response.upgrades_to_websocket, rows[i].switches, "%s", rows[i].head);
	}
}

Test(http1, a_refresh_reloads_leads_or_is_unclear)
{
	static const struct {
		const char *value;
		enum http1_refresh what;
		const char *url;
	} rows[] = {
		{ "0", HTTP1_REFRESH_RELOADS, NULL },
		{ "5 ", HTTP1_REFRESH_RELOADS, NULL },
		{ "5;", HTTP1_REFRESH_RELOADS, NULL },
		{ "1.5 ; ", HTTP1_REFRESH_RELOADS, NULL },
		{ "0;url=http://evil.test/", HTTP1_REFRESH_LEADS, "http://evil.test/" },
		{ "0; URL = http://evil.test/", HTTP1_REFRESH_LEADS, "http://evil.test/" },
		{ "0, url='/x'", HTTP1_REFRESH_LEADS, "/x" },
		{ "0; url=\"//evil.test\"", HTTP1_REFRESH_LEADS, "//evil.test" },
		{ "0; http://evil.test/", HTTP1_REFRESH_LEADS, "http://evil.test/" },
		{ "0 http://evil.test/", HTTP1_REFRESH_LEADS, "http://evil.test/" },
		{ "0; 'x'", HTTP1_REFRESH_LEADS, "x" },
		{ "0; url=", HTTP1_REFRESH_LEADS, "" },
		{ "0; url=''", HTTP1_REFRESH_LEADS, "" },
		{ "", HTTP1_REFRESH_UNCLEAR, NULL },
		{ "x", HTTP1_REFRESH_UNCLEAR, NULL },
		{ ".5; url=/x", HTTP1_REFRESH_UNCLEAR, NULL },
		{ "0x; url=/x", HTTP1_REFRESH_UNCLEAR, NULL },
		{ "0; url", HTTP1_REFRESH_UNCLEAR, NULL },
		{ "0; urlx", HTTP1_REFRESH_UNCLEAR, NULL },
		{ "0; ux", HTTP1_REFRESH_UNCLEAR, NULL },
		{ "0; url='/x", HTTP1_REFRESH_UNCLEAR, NULL },
		{ "0; url='", HTTP1_REFRESH_UNCLEAR, NULL },
		{ "0; url='/x'y", HTTP1_REFRESH_UNCLEAR, NULL },
		{ "0; url='/x'y'", HTTP1_REFRESH_UNCLEAR, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = strlen(rows[i].value);
		char *block = (char *)exact_copy(rows[i].value, len);
		struct text url = { NULL, 0 };

		cr_assert_eq(http1_read_refresh((struct text){ block, len }, &url), rows[i].what,
			     "%s", rows[i].value);
		if (rows[i].url != NULL)
			cr_assert(text_is(url, rows[i].url), "%s", rows[i].value);
		free(block);
	}
}
