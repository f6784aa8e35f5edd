/*
 * Our own reading of HTTP/1 messages, for comparison with others': frames on standard input (kind q or s, method asked G or H, length in four
 * bytes, bytes), one line of JSON on standard output for each. Heads and bodies are read as the tunnel reads them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "wire/http1.h"
#include "wire/http1_body.h"

#define FRAME_MAX 100000

struct reader {
	bool is_request;
	enum http1_method asked; /* of responses */
	const uint8_t *at;       /* borrowed */
	size_t left;
	unsigned count;          /* messages printed */
	bool is_bad;
};

static void put_hex(const char *key, const void *bytes, size_t len)
{
	printf("\"%s\":\"", key);
	for (size_t i = 0; i < len; i++)
		printf("%02x", ((const uint8_t *)bytes)[i]);
	printf("\",");
}

/* Read one head and print it; false when there is none. */
static bool read_head(struct reader *r, struct http1_framing *out_framing, bool *out_is_last)
{
	struct http1_scan scan = { 0 };
	struct http1_request q;
	struct http1_response s;
	enum http1_fault fault;
	enum parsed p = r->is_request ? http1_request_read(&scan, r->at, r->left, &q, &fault) :
					http1_response_read(&scan, r->at, r->left, r->asked, &s, &fault);
	size_t len;

	r->is_bad = p == PARSED_BAD;
	if (p != PARSED_OK)
		return false;
	printf("%s{", r->count++ > 0 ? "," : "");
	if (r->is_request) {
		put_hex("method", q.method_word.at, q.method_word.len);
		put_hex("target", q.target.at, q.target.len);
		put_hex("host", q.host.at, q.host.len);
	} else {
		printf("\"status\":%u,", s.status);
		if (s.has_location)
			put_hex("location", s.location.at, s.location.len);
	}
	*out_framing = r->is_request ? q.framing : s.framing;
	*out_is_last = r->is_request ? q.asks_upgrade || q.method == HTTP1_METHOD_CONNECT : s.status == 101;
	len = r->is_request ? q.len : s.len;
	r->at += len;
	r->left -= len;
	return true;
}

/* Step over the body and print it as it is on the wire; false when it is not whole. */
static bool read_body(struct reader *r, const struct http1_framing *framing)
{
	struct http1_body body;
	size_t len = 0;
	enum parsed p = PARSED_OK;

	http1_body_start(&body, framing);
	if (!http1_body_is_done(&body))
		p = http1_body_advance(&body, r->at, r->left, &len);
	r->is_bad = p == PARSED_BAD;
	if (p != PARSED_OK && framing->kind != HTTP1_UNTIL_CLOSE)
		return false;
	put_hex("body", r->at, len);
	printf("\"framing\":%d,", (int)framing->kind);
	r->at += len;
	r->left -= len;
	return true;
}

static void read_messages(struct reader *r)
{
	struct http1_framing framing;
	bool is_whole = true, is_last = false;

	printf("{\"messages\":[");
	while (r->left > 0 && is_whole && !is_last && read_head(r, &framing, &is_last)) {
		is_whole = read_body(r, &framing);
		printf("\"whole\":%s}", is_whole ? "true" : "false");
	}
	printf("],\"bad\":%s}\n", r->is_bad ? "true" : "false");
}

int main(void)
{
	static uint8_t bytes[FRAME_MAX];
	uint8_t head[6];

	while (fread(head, 1, sizeof(head), stdin) == sizeof(head)) {
		struct reader r = { .is_request = head[0] == 'q', .at = bytes };

		r.asked = head[1] == 'H' ? HTTP1_METHOD_HEAD : HTTP1_METHOD_GET;
		r.left = (size_t)head[2] << 24 | (size_t)head[3] << 16 | (size_t)head[4] << 8 | head[5];
		if (r.left > sizeof(bytes) || fread(bytes, 1, r.left, stdin) != r.left)
			return EXIT_FAILURE;
		read_messages(&r);
	}
	return EXIT_SUCCESS;
}
