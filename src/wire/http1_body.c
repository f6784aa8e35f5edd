/*
 * The walk along a body: data is counted, lines are judged. A line that is not complete passes
 * nothing, so that a trailer that must not be never reaches the other side. Called by the HTTP
 * filters of proxy/tunnel.
 */
#include "wire/http1_body.h"

#include <string.h>

#define SIZE_DIGITS_MAX 16

/* Fields that frame, route or change the connection (RFC 9110 section 6.5.1): a reader may merge
 * trailers into the head. */
static const char *const forbidden_trailers[] = {
	"connection",
	"content-encoding",
	"content-length",
	"content-location",
	"content-range",
	"content-type",
	"content_length",
	"host",
	"keep-alive",
	"location",
	"proxy-connection",
	"refresh",
	"transfer-encoding",
	"transfer_encoding",
	"te",
	"trailer",
	"upgrade",
};

void http1_body_start(struct http1_body *body, const struct http1_framing *framing)
{
	memset(body, 0, sizeof(*body));
	body->framing = framing->kind;
	switch (framing->kind) {
	case HTTP1_NO_BODY:
		body->state = HTTP1_BODY_DONE;
		break;
	case HTTP1_LENGTH:
		body->state = framing->length > 0 ? HTTP1_BODY_DATA : HTTP1_BODY_DONE;
		body->left = framing->length;
		break;
	case HTTP1_CHUNKED:
		body->state = HTTP1_BODY_CHUNK_LINE;
		break;
	case HTTP1_UNTIL_CLOSE:
		body->state = HTTP1_BODY_DATA;
		body->left = UINT64_MAX;
		break;
	}
}

/* Find the line at the front of `t`, without its CR LF; both must come together and nothing else
 * that is no text. */
static enum parsed find_line(struct text t, size_t max, struct text *out_line)
{
	for (size_t i = 0; i < t.len && i < max; i++) {
		unsigned char c = (unsigned char)t.at[i];

		if (i > 0 && t.at[i - 1] == '\r') {
			if (c != '\n')
				return PARSED_BAD;
			*out_line = (struct text){ t.at, i - 1 };
			return PARSED_OK;
		}
		if ((c < 0x20 && c != '\t' && c != '\r') || c == 0x7f)
			return PARSED_BAD;
	}
	return t.len < max ? PARSED_MORE : PARSED_BAD;
}

static int hex_digit(char c)
{
	c = text_lower(c);
	if (text_is_digit(c))
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* chunk-size and, if any, extensions behind a semicolon that follows at once (RFC 9112
 * section 7.1). */
static bool read_chunk_line(struct text line, uint64_t *out_size)
{
	uint64_t size = 0;
	size_t digits = 0;

	while (digits < line.len && hex_digit(line.at[digits]) >= 0) {
		if (digits == SIZE_DIGITS_MAX)
			return false;
		size = size << 4 | (unsigned)hex_digit(line.at[digits]);
		digits++;
	}
	if (digits == 0 || size > INT64_MAX || (digits < line.len && line.at[digits] != ';'))
		return false;
	*out_size = size;
	return true;
}

static bool trailer_is_good(struct text line)
{
	struct text name, value;

	if (line.at[0] == ' ' || line.at[0] == '\t' || !http1_split_field(line, &name, &value))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(forbidden_trailers); i++) {
		if (text_equal_nocase(name, text_of(forbidden_trailers[i])))
			return false;
	}
	return true;
}

static enum parsed step_data(struct http1_body *body, size_t len, size_t *io_at)
{
	size_t step = len - *io_at;

	if (body->framing == HTTP1_UNTIL_CLOSE) {
		*io_at = len;
		return PARSED_MORE;
	}
	if (step > body->left)
		step = (size_t)body->left;
	*io_at += step;
	body->left -= step;
	if (body->left == 0)
		body->state =
			body->framing == HTTP1_CHUNKED ? HTTP1_BODY_CHUNK_END : HTTP1_BODY_DONE;
	return PARSED_OK;
}

static enum parsed on_chunk_line(struct http1_body *body, struct text line)
{
	if (!read_chunk_line(line, &body->left))
		return PARSED_BAD;
	body->state = body->left > 0 ? HTTP1_BODY_DATA : HTTP1_BODY_TRAILERS;
	return PARSED_OK;
}

static enum parsed on_trailer_line(struct http1_body *body, struct text line)
{
	body->trailers_len += line.len + 2;
	if (line.len == 0) {
		body->state = HTTP1_BODY_DONE;
		return PARSED_OK;
	}
	return trailer_is_good(line) ? PARSED_OK : PARSED_BAD;
}

static enum parsed step_line(struct http1_body *body, struct text rest, size_t *io_at)
{
	struct text line;
	size_t max = HTTP1_CHUNK_LINE_MAX;
	enum parsed r;

	if (body->state == HTTP1_BODY_CHUNK_END)
		max = 2;
	else if (body->state == HTTP1_BODY_TRAILERS)
		max = HTTP1_TRAILERS_MAX - body->trailers_len;
	r = find_line(rest, max, &line);
	if (r != PARSED_OK)
		return r;
	if (body->state == HTTP1_BODY_CHUNK_LINE)
		r = on_chunk_line(body, line);
	else if (body->state == HTTP1_BODY_TRAILERS)
		r = on_trailer_line(body, line);
	else
		body->state = HTTP1_BODY_CHUNK_LINE;
	if (r == PARSED_OK)
		*io_at += line.len + 2;
	return r;
}

enum parsed http1_body_advance(struct http1_body *body, const uint8_t *bytes, size_t len,
			       size_t *out_len)
{
	size_t at = 0;
	enum parsed r = body->state == HTTP1_BODY_BROKEN ? PARSED_BAD : PARSED_OK;

	while (r == PARSED_OK && body->state != HTTP1_BODY_DONE) {
		if (at == len)
			r = PARSED_MORE;
		else if (body->state == HTTP1_BODY_DATA)
			r = step_data(body, len, &at);
		else
			r = step_line(body, (struct text){ (const char *)bytes + at, len - at },
				      &at);
	}
	if (r == PARSED_BAD)
		body->state = HTTP1_BODY_BROKEN;
	*out_len = at;
	return r;
}
