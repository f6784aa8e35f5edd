/*
 * Heads of HTTP/1.0 and 1.1 messages (RFC 9112), read so that every other reader must see the same:
 * what two parsers could take differently is BAD. Knows no policy: which host, target or answer is
 * right is for the caller to say.
 */
#ifndef EGRESS_WIRE_HTTP1_H
#define EGRESS_WIRE_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/cursor.h"
#include "base/text.h"

#define HTTP1_HEAD_MAX 32768 /* bytes of a head with its empty line */
#define HTTP1_FIELDS_MAX 256 /* field lines in a head */
#define HTTP1_METHOD_MAX 32  /* bytes of a method */

/* Why a message was BAD; the first that applies. */
enum http1_fault {
	HTTP1_FAULT_NONE,
	HTTP1_FAULT_MALFORMED,	   /* breaks the grammar, or is larger than the limits */
	HTTP1_FAULT_FRAMING,	   /* where the body ends is in doubt */
	HTTP1_FAULT_HOST_MISSING,  /* a request without Host */
	HTTP1_FAULT_HOST_REPEATED, /* a request with several */
};

/*
 * How far a head was looked at, so that bytes that come one by one are judged once. All zeros at
 * the start of each head; the bytes offered must start at the same place every time.
 */
struct http1_scan {
	size_t at; /* bytes judged */
	size_t line_start;
	unsigned line_count; /* complete lines */
};

enum http1_framing_kind {
	HTTP1_NO_BODY,
	HTTP1_LENGTH, /* `length` bytes */
	HTTP1_CHUNKED,
	HTTP1_UNTIL_CLOSE, /* responses only */
};

struct http1_framing {
	enum http1_framing_kind kind;
	uint64_t length; /* kind == LENGTH */
};

enum http1_method { HTTP1_METHOD_OTHER, HTTP1_METHOD_GET, HTTP1_METHOD_HEAD, HTTP1_METHOD_CONNECT };

enum http1_form {
	HTTP1_FORM_ORIGIN,    /* starts with a slash; a second slash means nothing */
	HTTP1_FORM_ABSOLUTE,  /* a URL: url_read says where to */
	HTTP1_FORM_AUTHORITY, /* CONNECT only: url_read_host says where to */
	HTTP1_FORM_ASTERISK,  /* OPTIONS only */
};

/* All texts are borrowed from the bytes that were read. */
struct http1_request {
	enum http1_method method;
	enum http1_form form;
	struct text method_word, target;
	struct text host; /* value of the one Host field; may be empty */
	struct http1_framing framing;
	bool expects_continue; /* Expect: 100-continue */
	bool asks_upgrade;     /* Upgrade, and Connection names it, in HTTP/1.1 */
	bool asks_websocket; /* … by a GET without a body, and websocket is among the protocols */
	bool is_last;	     /* the connection ends after the response */
	struct text fields;  /* the field lines, for http1_next_field */
	size_t len;	     /* bytes of the head with its empty line */
};

struct http1_response {
	unsigned status; /* 100-999 */
	bool is_interim; /* 1xx but 101: another head follows for the same request */
	struct http1_framing framing;
	bool has_location, has_refresh;
	struct text location, refresh; /* values; more than one of a kind is BAD */
	bool upgrades_to_websocket;    /* a 101 with Connection: upgrade and websocket alone */
	bool is_last;                  /* the connection ends after the body */
	struct text fields;
	size_t len;
};

/*
 * Read a request head from the front of `bytes`. Lines are judged as they are complete. MORE while
 * there is no empty line and fewer than HTTP1_HEAD_MAX bytes. *out_fault is written for BAD only.
 */
enum parsed http1_request_read(struct http1_scan *scan, const uint8_t *bytes, size_t len,
			       struct http1_request *out_request,
			       enum http1_fault *out_fault) ATTR_MUST_CHECK;
/* Read a response head; `asked` is the method of the request that it answers and decides whether
 * there is a body. */
enum parsed http1_response_read(struct http1_scan *scan, const uint8_t *bytes, size_t len,
				enum http1_method asked, struct http1_response *out_response,
				enum http1_fault *out_fault) ATTR_MUST_CHECK;

/* Take the next field from the front of *io_fields of a head that was OK; false at the end. The
 * value is trimmed. */
bool http1_next_field(struct text *io_fields, struct text *out_name,
		      struct text *out_value) ATTR_MUST_CHECK;
/* Split one line without its CR LF; false when it is no field line (RFC 9112 section 5). */
bool http1_split_field(struct text line, struct text *out_name,
		       struct text *out_value) ATTR_MUST_CHECK;

enum http1_refresh { HTTP1_REFRESH_RELOADS, HTTP1_REFRESH_LEADS, HTTP1_REFRESH_UNCLEAR };

/* Tell what the value of a Refresh field does: reload the same page, lead to *out_url (a
 * reference), or who knows. */
enum http1_refresh http1_read_refresh(struct text value, struct text *out_url);

#endif
