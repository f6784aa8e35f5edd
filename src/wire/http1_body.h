/*
 * Where the body of an HTTP/1 message ends, told while its bytes pass by (RFC 9112 sections 6 and
 * 7). Everything that is not data (chunk lines, trailers) is let through in whole lines only, after
 * it was judged. Holds no bytes.
 */
#ifndef EGRESS_WIRE_HTTP1_BODY_H
#define EGRESS_WIRE_HTTP1_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/cursor.h"
#include "wire/http1.h"

#define HTTP1_CHUNK_LINE_MAX 256 /* bytes of a chunk-size line with its extensions and line end */
#define HTTP1_TRAILERS_MAX 8192	 /* bytes of all trailer lines of a body */

enum http1_body_state {
	HTTP1_BODY_DATA, /* `left` bytes of data, then what `framing` says */
	HTTP1_BODY_CHUNK_LINE,
	HTTP1_BODY_CHUNK_END, /* the CR LF behind the data of a chunk */
	HTTP1_BODY_TRAILERS,
	HTTP1_BODY_DONE,
	HTTP1_BODY_BROKEN,
};

struct http1_body {
	enum http1_body_state state;
	enum http1_framing_kind framing;
	uint64_t left;	     /* bytes of data until the next decision */
	size_t trailers_len; /* bytes of trailer lines so far */
};

/* Start a body; one that is empty is done at once. */
void http1_body_start(struct http1_body *body, const struct http1_framing *framing);
/*
 * Say how many of the `len` bytes belong to the body and may pass now. OK: the body ends after
 * *out_len bytes. MORE: it goes on after them; bytes beyond *out_len are an incomplete line, to be
 * offered again with more (at most HTTP1_TRAILERS_MAX). BAD: framing is broken or a trailer is one
 * that must not be; *out_len bytes had passed before. Always writes *out_len.
 */
enum parsed http1_body_advance(struct http1_body *body, const uint8_t *bytes, size_t len,
			       size_t *out_len) ATTR_MUST_CHECK;
static inline bool http1_body_is_done(const struct http1_body *body)
{
	return body->state == HTTP1_BODY_DONE;
}
/* May the connection end here without anything missing? */
static inline bool http1_body_may_end(const struct http1_body *body)
{
	return body->state == HTTP1_BODY_DONE || body->framing == HTTP1_UNTIL_CLOSE;
}

#endif
