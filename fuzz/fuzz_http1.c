/*
 * HTTP/1 streams. The first byte picks request or response and the method asked, the second a cut.
 * A head reads the same in any pieces, holds none of the bytes readers disagree about, and one
 * Host; its body passes the same in any pieces.
 */
#include <strings.h>

#include "require.h"
#include "wire/http1_body.h"
#include "wire/url.h"

struct head {
	enum parsed parsed;
	enum http1_fault fault;
	size_t len;
	struct http1_framing framing;
	struct text fields;
	struct http1_request request;
	struct http1_response response;
};

static void read_head(struct head *h, uint8_t mode, struct http1_scan *scan, const uint8_t *bytes,
		      size_t len)
{
	memset(h, 0, sizeof(*h));
	if (mode & 1) {
		h->parsed =
			http1_response_read(scan, bytes, len, (enum http1_method)(mode >> 1 & 3),
					    &h->response, &h->fault);
		h->len = h->response.len;
		h->framing = h->response.framing;
		h->fields = h->response.fields;
	} else {
		h->parsed = http1_request_read(scan, bytes, len, &h->request, &h->fault);
		h->len = h->request.len;
		h->framing = h->request.framing;
		h->fields = h->request.fields;
	}
	REQUIRE((h->parsed == PARSED_BAD) == (h->fault != HTTP1_FAULT_NONE));
	REQUIRE(h->parsed != PARSED_MORE || len < HTTP1_HEAD_MAX);
}

/* How many lines start with this name and a colon, in a head of plain lines. */
static unsigned count_lines(const uint8_t *bytes, size_t len, const char *name)
{
	unsigned count = 0;
	size_t name_len = strlen(name);

	for (size_t at = 2; at + name_len < len; at++)
		count += bytes[at - 2] == '\r' && bytes[at - 1] == '\n' &&
			 bytes[at + name_len] == ':' &&
			 strncasecmp((const char *)bytes + at, name, name_len) == 0;
	return count;
}

static void check_head(const struct head *h, uint8_t mode, const uint8_t *bytes)
{
	unsigned lengths = count_lines(bytes, h->len, "content-length");
	unsigned codings = count_lines(bytes, h->len, "transfer-encoding");
	struct text rest = h->fields, name, value;

	REQUIRE(h->len >= 4 && h->len <= HTTP1_HEAD_MAX &&
		memcmp(bytes + h->len - 4, "\r\n\r\n", 4) == 0);
	for (size_t i = 0; i < h->len; i++) {
		REQUIRE(bytes[i] >= ' ' || bytes[i] == '\r' || bytes[i] == '\n' ||
			bytes[i] == '\t');
		REQUIRE((bytes[i] == '\n') == (i > 0 && bytes[i - 1] == '\r'));
		REQUIRE(i == 0 || bytes[i - 1] != '\n' || (bytes[i] != ' ' && bytes[i] != '\t'));
	}
	REQUIRE(lengths + codings <= 1);
	REQUIRE(h->framing.kind != HTTP1_CHUNKED || codings == 1);
	REQUIRE(h->framing.kind != HTTP1_LENGTH || (lengths == 1 && h->framing.length > 0));
	while (http1_next_field(&rest, &name, &value))
		REQUIRE(name.len > 0 &&
			(value.len == 0 || (value.at[0] != ' ' && value.at[0] != '\t')));
	REQUIRE(rest.len == 0);
	if (mode & 1) {
		REQUIRE(count_lines(bytes, h->len, "location") == h->response.has_location);
		REQUIRE(h->response.status >= 100 && h->response.status <= 999);
	} else {
		REQUIRE(count_lines(bytes, h->len, "host") == 1 &&
			h->framing.kind != HTTP1_UNTIL_CLOSE);
		REQUIRE(codings == (h->framing.kind == HTTP1_CHUNKED));
	}
}

static void follow(const struct head *h)
{
	struct url base, url;
	struct url_host host;
	struct text reference;

	REQUIRE(url_read(text_of("http://base.test/"), &base));
	if (h->response.has_location && url_resolve(h->response.location, &base, &url))
		REQUIRE(url.host.port != 0);
	if (h->response.has_refresh &&
	    http1_read_refresh(h->response.refresh, &reference) == HTTP1_REFRESH_LEADS &&
	    url_resolve(reference, &base, &url))
		REQUIRE(url.host.port != 0);
	if (h->request.host.at != NULL && url_read_host(h->request.host, 80, &host))
		REQUIRE(host.port != 0);
	if (h->request.target.at != NULL && h->request.form == HTTP1_FORM_ABSOLUTE &&
	    url_read(h->request.target, &url))
		REQUIRE(url.host.port != 0);
}

/* Pass a body at once, and in pieces of `piece` bytes; both pass as much and end alike. */
static void check_body(const struct http1_framing *framing, const uint8_t *bytes, size_t len,
		       size_t piece)
{
	struct http1_body whole, pieces;
	size_t whole_len, passed = 0, step;
	enum parsed r = PARSED_MORE, r_whole;

	http1_body_start(&whole, framing);
	http1_body_start(&pieces, framing);
	r_whole = http1_body_advance(&whole, bytes, len, &whole_len);
	REQUIRE(whole_len <= len);
	for (size_t have = 0; r == PARSED_MORE; have = have + piece < len ? have + piece : len) {
		r = http1_body_advance(&pieces, bytes + passed, have - passed, &step);
		REQUIRE(step <= have - passed);
		passed += step;
		REQUIRE(have - passed <= HTTP1_TRAILERS_MAX);
		if (have == len)
			break;
	}
	REQUIRE(r == r_whole && passed == whole_len && pieces.state == whole.state);
	REQUIRE((r == PARSED_OK) == http1_body_is_done(&whole));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http1_scan scan = { 0 }, resumed = { 0 };
	struct head whole, part, again;
	uint8_t *block;
	size_t cut;

	if (size < 2)
		return 0;
	cut = cut_at(size - 2, data[1]);
	read_head(&whole, data[0], &scan, data + 2, size - 2);
	block = exact_copy(data + 2, cut);
	read_head(&part, data[0], &resumed, block, cut);
	REQUIRE(part.parsed == PARSED_MORE || part.parsed == whole.parsed);
	read_head(&again, data[0], &resumed, data + 2, size - 2);
	REQUIRE(again.parsed == whole.parsed && again.fault == whole.fault &&
		again.len == whole.len);
	if (whole.parsed == PARSED_OK) {
		check_head(&whole, data[0], data + 2);
		follow(&whole);
		check_body(&whole.framing, data + 2 + whole.len, size - 2 - whole.len,
			   1u + data[1]);
	}
	free(block);
	return 0;
}
