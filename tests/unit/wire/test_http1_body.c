/* Bodies end where they end in any pieces, and no line passes before it was judged. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "hex.h"
#include "wire/http1_body.h"

static const struct http1_framing chunked = { HTTP1_CHUNKED, 0 };

/* Offer all at once; returns the result and how much may pass. */
static enum parsed advance(const struct http1_framing *framing, const char *bytes, size_t len,
			   size_t *out_len)
{
	struct http1_body body;

	http1_body_start(&body, framing);
	return http1_body_advance(&body, (const uint8_t *)bytes, len, out_len);
}

static const struct {
	struct http1_framing framing;
	const char *bytes;
	size_t len; /* of the body; what follows is the next message */
} good[] = {
	{ { HTTP1_NO_BODY, 0 }, "HTTP/1.1 200 OK", 0 },
	{ { HTTP1_LENGTH, 0 }, "next", 0 },
	{ { HTTP1_LENGTH, 1 }, "next", 1 },
	{ { HTTP1_LENGTH, 5 }, "hellonext", 5 },
	{ { HTTP1_LENGTH, 2 }, "\r\nnext", 2 },
	{ { HTTP1_CHUNKED, 0 }, "0\r\n\r\nnext", 5 },
	{ { HTTP1_CHUNKED, 0 }, "5\r\nhello\r\n0\r\n\r\nnext", 15 },
	{ { HTTP1_CHUNKED, 0 }, "1\r\nx\r\nA\r\n0\r\n\r\n12345\r\n000\r\n\r\n0\r\n\r\n", 28 },
	{ { HTTP1_CHUNKED, 0 }, "00005;a=b;c=\"d e\"\r\nhello\r\n0;x\r\n\r\n0\r\n\r\n", 33 },
	{ { HTTP1_CHUNKED, 0 }, "0\r\nX-Sum: abc\r\nServer-Timing: a;dur=1\r\n\r\nnext", 41 },
	{ { HTTP1_CHUNKED, 0 }, "000000000000000a\r\n0123456789\r\n0\r\n\r\n", 35 },
};

Test(http1_body, a_body_ends_at_its_last_byte_and_not_one_later)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		size_t n = 99;

		cr_assert_eq(advance(&good[i].framing, good[i].bytes, strlen(good[i].bytes), &n),
			     PARSED_OK, "row %zu", i);
		cr_assert_eq(n, good[i].len, "row %zu: %zu", i, n);
	}
}

Test(http1_body, every_cut_of_a_body_passes_the_same_bytes)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		size_t len = strlen(good[i].bytes);

		for (size_t first = 0; first < good[i].len; first++) {
			struct http1_body body;
			uint8_t *block = exact_copy(good[i].bytes, first);
			size_t passed, more;

			http1_body_start(&body, &good[i].framing);
			cr_assert_eq(http1_body_advance(&body, block, first, &passed), PARSED_MORE,
				     "row %zu, %zu", i, first);
			cr_assert_leq(passed, first);
			cr_assert_eq(http1_body_advance(&body,
							(const uint8_t *)good[i].bytes + passed,
							len - passed, &more),
				     PARSED_OK);
			cr_assert_eq(passed + more, good[i].len);
			cr_assert(http1_body_is_done(&body) && http1_body_may_end(&body));
			free(block);
		}
	}
}

Test(http1_body, bytes_one_by_one_hold_no_more_than_a_line)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct http1_body body;
		size_t passed = 0;

		http1_body_start(&body, &good[i].framing);
		for (size_t n = 1; n <= good[i].len; n++) {
			size_t step;
			enum parsed r = http1_body_advance(
				&body, (const uint8_t *)good[i].bytes + passed, n - passed, &step);

			passed += step;
			cr_assert_eq(r, n == good[i].len ? PARSED_OK : PARSED_MORE);
			cr_assert_eq(http1_body_may_end(&body), n == good[i].len);
		}
		cr_assert_eq(passed, good[i].len);
	}
}

Test(http1_body, a_body_until_close_never_ends_and_may_end_any_time)
{
	const struct http1_framing framing = { HTTP1_UNTIL_CLOSE, 0 };
	struct http1_body body;
	size_t n;

	http1_body_start(&body, &framing);
	cr_assert(http1_body_may_end(&body) && !http1_body_is_done(&body));
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(http1_body_advance(&body, (const uint8_t *)"0\r\n\r\n", 5, &n),
			     PARSED_MORE);
		cr_assert_eq(n, 5);
	}
	cr_assert_eq(http1_body_advance(&body, NULL, 0, &n), PARSED_MORE);
	cr_assert_eq(n, 0);
}

Test(http1_body, a_length_of_any_size_is_counted_down)
{
	const struct http1_framing framing = { HTTP1_LENGTH, INT64_MAX };
	struct http1_body body;
	size_t n;

	http1_body_start(&body, &framing);
	cr_assert_eq(http1_body_advance(&body, (const uint8_t *)"abc", 3, &n), PARSED_MORE);
	cr_assert_eq(n, 3);
	cr_assert_eq(body.left, (uint64_t)INT64_MAX - 3);
	cr_assert(!http1_body_may_end(&body));
}

Test(http1_body, broken_chunks_pass_nothing_of_what_is_broken)
{
	static const struct {
		const char *bytes;
		size_t passes;
	} rows[] = {
		/* C229 */
		{ "FFFFFFFFFFFFFFFF1\r\n", 0 },
		{ "FFFFFFFFFFFFFFFF\r\n", 0 },
		{ "8000000000000000\r\n", 0 },
		{ "00000000000000005\r\nhello", 0 },
		{ "0x5\r\nhello\r\n", 0 },
		{ "+5\r\nhello\r\n", 0 },
		{ " 5\r\nhello\r\n", 0 },
		{ "-5\r\n", 0 },
		{ "5\r\nhelloX\r\n", 8 },
		{ "5\r\nhello0\r\n\r\n", 8 },
		{ "5\r\nhello\n0\r\n\r\n", 8 },
		{ "5\r\nhello\r0\r\n\r\n", 8 },
		/* other odd lines */
		{ "\r\n", 0 },
		{ "g\r\n", 0 },
		{ "5 \r\nhello\r\n", 0 },
		{ "5\t\r\n", 0 },
		{ "5 ;x\r\n", 0 },
		{ "5\nhello\r\n", 0 },
		{ "5\rhello\r\n", 0 },
		{ "5;a\nb\r\n", 0 },
		{ "5;a\x01\r\n", 0 },
		{ ";x\r\n", 0 },
		{ "5,5\r\n", 0 },
		{ "5\r\r\n", 0 },
		{ "\x7f\r\n", 0 },
		{ "5;\x7f\r\n", 0 },
		/* trailers */
		{ "0\r\n X: y\r\n\r\n", 3 },
		{ "0\r\n\tX: y\r\n\r\n", 3 },
		{ "0\r\nX : y\r\n\r\n", 3 },
		{ "0\r\n: y\r\n\r\n", 3 },
		{ "0\r\nXy\r\n\r\n", 3 },
		{ "0\r\nX: y\n\r\n", 3 },
		{ "0\r\nA: b\r\nHost: evil.test\r\n\r\n", 9 },	   /* C230 */
		{ "0\r\nLOCATION: http://evil.test/\r\n\r\n", 3 }, /* C257 */
		{ "0\r\nContent-Length: 5\r\n\r\n", 3 },
		{ "0\r\nTransfer-Encoding: chunked\r\n\r\n", 3 },
		{ "0\r\nRefresh: 0\r\n\r\n", 3 },
		{ "0\r\nUpgrade: x\r\n\r\n", 3 },
		{ "0\r\nConnection: close\r\n\r\n", 3 },
		{ "0\r\nX: y\r\n\rz", 9 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = strlen(rows[i].bytes), n;
		enum parsed before = PARSED_MORE;
		struct http1_body body;

		for (size_t first = 0; first <= len; first++) {
			uint8_t *block = exact_copy(rows[i].bytes, first);
			enum parsed r = advance(&chunked, (const char *)block, first, &n);

			cr_assert(before == PARSED_MORE || r == before);
			cr_assert_leq(n, rows[i].passes, "row %zu %s", i, rows[i].bytes);
			before = r;
			free(block);
		}
		cr_assert_eq(before, PARSED_BAD, "row %zu %s", i, rows[i].bytes);
		cr_assert_eq(n, rows[i].passes, "row %zu %s: %zu", i, rows[i].bytes, n);
		http1_body_start(&body, &chunked);
		cr_assert_eq(http1_body_advance(&body, (const uint8_t *)rows[i].bytes, len, &n),
			     PARSED_BAD);
		cr_assert_eq(http1_body_advance(&body, (const uint8_t *)"0\r\n\r\n", 5, &n),
			     PARSED_BAD, "it stays");
		cr_assert_eq(n, 0);
		cr_assert(!http1_body_may_end(&body));
	}
}

Test(http1_body, nul_in_a_line_is_broken)
{
	size_t n;

	cr_assert_eq(advance(&chunked, "5;\0\r\n", 5, &n), PARSED_BAD);
	cr_assert_eq(advance(&chunked, "0\r\nX: \0\r\n", 9, &n), PARSED_BAD);
	cr_assert_eq(advance(&chunked,
			     "\0"
			     "5\r\n",
			     4, &n),
		     PARSED_BAD);
}

Test(http1_body, lines_and_trailers_have_a_most)
{
	static char bytes[3 * HTTP1_TRAILERS_MAX];
	size_t n;

	for (size_t over = 0; over <= 1; over++) {
		memset(bytes, 'x', sizeof(bytes));
		memcpy(bytes, "1;", 2);
		memcpy(bytes + HTTP1_CHUNK_LINE_MAX - 2 + over, "\r\n", 2);
		cr_assert_eq(advance(&chunked, bytes, sizeof(bytes), &n), PARSED_BAD);
		cr_assert_eq(n, over ? 0 : HTTP1_CHUNK_LINE_MAX + 1);
	}
	memset(bytes, 'x', sizeof(bytes));
	cr_assert_eq(advance(&chunked, bytes, 10, &n), PARSED_MORE);
	cr_assert_eq(advance(&chunked, bytes, HTTP1_CHUNK_LINE_MAX, &n), PARSED_BAD);
	for (size_t over = 0; over <= 1; over++) {
		size_t len = (size_t)snprintf(bytes, sizeof(bytes), "0\r\n");

		for (size_t left = HTTP1_TRAILERS_MAX - 2 + over; left > 0;) {
			size_t line = left < 200 ? left : 100;

			memset(bytes + len, 'x', line);
			bytes[len + 1] = ':';
			memcpy(bytes + len + line - 2, "\r\n", 2);
			len += line;
			left -= line;
		}
		memcpy(bytes + len, "\r\n", 2);
		cr_assert_eq(advance(&chunked, bytes, len + 2, &n), over ? PARSED_BAD : PARSED_OK);
	}
}
