/*
 * HTTP/1 heads in two passes: lines are scanned and judged as they arrive, each byte once; the
 * complete head is then read field by field through a table. What is not the one plain form is
 * refused, also where RFC 9112 would let a recipient repair it: the next reader may repair
 * differently. Called by the filters of proxy/tunnel and by the HTTP front.
 */
#include "wire/http1.h"

#include <string.h>

#define LENGTH_MAX INT64_MAX

/* What the fields of a head say, before anybody decides about it. */
struct gathered {
	unsigned host_count, length_count, coding_count, upgrade_count, location_count,
		refresh_count;
	struct text host, location, refresh;
	uint64_t length;
	bool broken;	     /* a list that is none */
	bool framing_broken; /* a length or coding that is not the plain form */
	bool says_close, says_keep_alive, says_upgrade;
	bool names_websocket, expects_continue;
};

/* --- characters and small texts --- */

/* RFC 9110 section 5.6.2. */
static bool is_token_char(char c)
{
	char lower = text_lower(c);

	return (lower >= 'a' && lower <= 'z') || text_is_digit(c) ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(struct text t)
{
	for (size_t i = 0; i < t.len; i++) {
		if (!is_token_char(t.at[i]))
			return false;
	}
	return t.len > 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct text trimmed(struct text t)
{
	while (t.len > 0 && is_blank(t.at[0])) {
		t.at++;
		t.len--;
	}
	while (t.len > 0 && is_blank(t.at[t.len - 1]))
		t.len--;
	return t;
}

static bool is_nocase(struct text t, const char *word)
{
	return text_equal_nocase(t, text_of(word));
}

/* --- lines --- */

bool http1_split_field(struct text line, struct text *out_name, struct text *out_value)
{
	struct text value = line, name = text_take_until(&value, ':');

	/* No colon, nothing or a blank before it: section 5.1 has no such line. */
	if (name.len == line.len || !is_token(name))
		return false;
	*out_name = name;
	*out_value = trimmed(value);
	return true;
}

static bool read_version(struct text t, bool *out_is_10)
{
	if (!text_is(t, "HTTP/1.1") && !text_is(t, "HTTP/1.0"))
		return false;
	*out_is_10 = t.at[7] == '0';
	return true;
}

/* Upper-case letters, digits, hyphen, underscore: a server that folds case must not see another
 * method than we do. */
static bool is_method(struct text t)
{
	for (size_t i = 0; i < t.len; i++) {
		char c = t.at[i];

		if (!(c >= 'A' && c <= 'Z') &&
		    !(i > 0 && (text_is_digit(c) || c == '-' || c == '_')))
			return false;
	}
	return t.len > 0 && t.len <= HTTP1_METHOD_MAX;
}

static bool read_form(struct http1_request *request)
{
	struct text t = request->target;
	char first = t.len > 0 ? text_lower(t.at[0]) : '\0';

	/* Beyond ASCII are bytes that some readers split lines at; a fragment is never sent
	 * (section 3.2). */
	for (size_t i = 0; i < t.len; i++) {
		if (t.at[i] <= ' ' || t.at[i] > '~' || t.at[i] == '#')
			return false;
	}
	if (request->method == HTTP1_METHOD_CONNECT)
		request->form = HTTP1_FORM_AUTHORITY;
	else if (first == '/')
		request->form = HTTP1_FORM_ORIGIN;
	else if (text_is(t, "*") && text_is(request->method_word, "OPTIONS"))
		request->form = HTTP1_FORM_ASTERISK;
	else if (first >= 'a' && first <= 'z' && memchr(t.at, ':', t.len) != NULL)
		request->form = HTTP1_FORM_ABSOLUTE;
	else
		return false;
	return t.len > 0;
}

static bool read_request_line(struct text line, struct http1_request *request, bool *out_is_10)
{
	request->method_word = text_take_until(&line, ' ');
	request->target = text_take_until(&line, ' ');
	if (!is_method(request->method_word) || !read_version(line, out_is_10))
		return false;
	request->method = text_is(request->method_word, "GET")	     ? HTTP1_METHOD_GET
			  : text_is(request->method_word, "HEAD")    ? HTTP1_METHOD_HEAD
			  : text_is(request->method_word, "CONNECT") ? HTTP1_METHOD_CONNECT
								     : HTTP1_METHOD_OTHER;
	return read_form(request);
}

/* The blank behind the status may be missing together with the reason; servers do that and it
 * changes nothing. */
static bool read_status_line(struct text line, struct http1_response *response, bool *out_is_10)
{
	struct text version = text_take_until(&line, ' ');
	struct text status = text_take_until(&line, ' ');
	uint64_t code;

	if (!read_version(version, out_is_10) || status.len != 3 ||
	    !text_to_u64(status, 999, &code) || code < 100)
		return false;
	response->status = (unsigned)code;
	return true;
}

typedef bool (*start_line_fn)(struct text line);

static bool is_request_line(struct text line)
{
	struct http1_request request;
	bool is_10;

	return read_request_line(line, &request, &is_10);
}

static bool is_status_line(struct text line)
{
	struct http1_response response;
	bool is_10;

	return read_status_line(line, &response, &is_10);
}

static bool line_is_good(const struct http1_scan *scan, struct text line,
			 start_line_fn is_start_line)
{
	struct text name, value;

	if (scan->line_count == 0)
		return is_start_line(line);
	return scan->line_count <= HTTP1_FIELDS_MAX && http1_split_field(line, &name, &value);
}

/* Blanks at the start of a line fold it into the one before, for some readers (section 5.2). */
static bool byte_is_good(uint8_t c, bool starts_line)
{
	if (c < 0x20)
		return c == '\r' || (c == '\t' && !starts_line);
	return c != 0x7f && !(c == ' ' && starts_line);
}

/* Go on scanning; OK when the empty line is there, then *out_len is the length of the head. */
static enum parsed scan_head(struct http1_scan *scan, const uint8_t *bytes, size_t len,
			     start_line_fn is_start_line, size_t *out_len)
{
	size_t end = len < HTTP1_HEAD_MAX ? len : HTTP1_HEAD_MAX;

	for (; scan->at < end; scan->at++) {
		size_t at = scan->at, start = scan->line_start;
		struct text line;

		if (at == start || bytes[at - 1] != '\r') {
			if (!byte_is_good(bytes[at], at == start))
				return PARSED_BAD;
			continue;
		}
		if (bytes[at] != '\n')
			return PARSED_BAD;
		line = (struct text){ (const char *)bytes + start, at - 1 - start };
		if (line.len == 0 && scan->line_count > 0) {
			*out_len = at + 1;
			return PARSED_OK;
		}
		if (!line_is_good(scan, line, is_start_line))
			return PARSED_BAD;
		scan->line_start = at + 1;
		scan->line_count++;
	}
	return len < HTTP1_HEAD_MAX ? PARSED_MORE : PARSED_BAD;
}

/* --- fields --- */

static void on_host(struct gathered *g, struct text value)
{
	g->host_count++;
	g->host = value;
}

static void on_content_length(struct gathered *g, struct text value)
{
	/* Also two equal values: a reader that joins them sees a list (RFC 9110 section 8.6). */
	if (g->length_count++ > 0 || !text_to_u64(value, LENGTH_MAX, &g->length))
		g->framing_broken = true;
}

static void on_transfer_encoding(struct gathered *g, struct text value)
{
	/* Exactly this word: a reader that does not know another spelling would look for a length
	 * instead. */
	if (g->coding_count++ > 0 || !text_is(value, "chunked"))
		g->framing_broken = true;
}

/* Gateways that hand fields to programs as variables read these as the ones with hyphens. */
static void on_framing_look_alike(struct gathered *g, struct text value)
{
	(void)value;
	g->framing_broken = true;
}

static void on_connection(struct gathered *g, struct text value)
{
	while (value.len > 0) {
		struct text option = trimmed(text_take_until(&value, ','));

		if (option.len == 0)
			continue;
		if (!is_token(option))
			g->broken = true;
		/* A next hop drops what is named here (RFC 9110 section 7.6.1): then it would see
		 * another message. */
		if (is_nocase(option, "host") || is_nocase(option, "content-length") ||
		    is_nocase(option, "transfer-encoding"))
			g->framing_broken = true;
		g->says_close |= is_nocase(option, "close");
		g->says_keep_alive |= is_nocase(option, "keep-alive");
		g->says_upgrade |= is_nocase(option, "upgrade");
	}
}

static void on_upgrade(struct gathered *g, struct text value)
{
	while (value.len > 0) {
		struct text protocol = trimmed(text_take_until(&value, ','));

		if (protocol.len == 0)
			continue;
		g->upgrade_count++;
		g->names_websocket |= is_nocase(protocol, "websocket");
	}
}

static void on_expect(struct gathered *g, struct text value)
{
	g->expects_continue |= is_nocase(value, "100-continue");
}

static void on_location(struct gathered *g, struct text value)
{
	g->location_count++;
	g->location = value;
}

static void on_refresh(struct gathered *g, struct text value)
{
	g->refresh_count++;
	g->refresh = value;
}

static const struct {
	const char *name;
	void (*on_field)(struct gathered *g, struct text value);
} fields[] = {
	{ "host", on_host },
	{ "content-length", on_content_length },
	{ "transfer-encoding", on_transfer_encoding },
	{ "content_length", on_framing_look_alike },
	{ "transfer_encoding", on_framing_look_alike },
	{ "connection", on_connection },
	{ "upgrade", on_upgrade },
	{ "expect", on_expect },
	{ "location", on_location },
	{ "refresh", on_refresh },
};

bool http1_next_field(struct text *io_fields, struct text *out_name, struct text *out_value)
{
	struct text line;

	if (io_fields->len == 0)
		return false;
	line = text_take_until(io_fields, '\r');
	text_take_until(io_fields, '\n');
	return http1_split_field(line, out_name, out_value);
}

static struct gathered gather(struct text rest)
{
	struct gathered g = { 0 };
	struct text name, value;

	while (http1_next_field(&rest, &name, &value)) {
		for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
			if (is_nocase(name, fields[i].name))
				fields[i].on_field(&g, value);
		}
	}
	return g;
}

/* Split a complete head into its first line and its field lines. */
static struct text first_line(const uint8_t *bytes, size_t len, struct text *out_fields)
{
	struct text head = { (const char *)bytes, len - 2 };
	struct text line = text_take_until(&head, '\r');

	text_take_until(&head, '\n');
	*out_fields = head;
	return line;
}

/* Does nothing contradict about where the body ends? (RFC 9112 section 6.3) */
static bool framing_is_plain(const struct gathered *g, bool is_10)
{
	return !g->framing_broken && (g->length_count == 0 || g->coding_count == 0) &&
	       !(is_10 && g->coding_count > 0);
}

static bool is_last_of_connection(const struct gathered *g, bool is_10)
{
	return g->says_close || (is_10 && !g->says_keep_alive);
}

static enum parsed bad(enum http1_fault fault, enum http1_fault *out_fault)
{
	*out_fault = fault;
	return PARSED_BAD;
}

/* --- requests --- */

static enum http1_fault request_fault(const struct gathered *g, const struct http1_request *request,
				      bool is_10)
{
	if (g->broken)
		return HTTP1_FAULT_MALFORMED;
	if (!framing_is_plain(g, is_10) || (request->method == HTTP1_METHOD_CONNECT &&
					    (g->length_count > 0 || g->coding_count > 0)))
		return HTTP1_FAULT_FRAMING;
	if (g->host_count == 0)
		return HTTP1_FAULT_HOST_MISSING;
	return g->host_count > 1 ? HTTP1_FAULT_HOST_REPEATED : HTTP1_FAULT_NONE;
}

enum parsed http1_request_read(struct http1_scan *scan, const uint8_t *bytes, size_t len,
			       struct http1_request *out_request, enum http1_fault *out_fault)
{
	struct http1_request request = { 0 };
	struct gathered g;
	enum http1_fault fault;
	bool is_10;
	enum parsed r = scan_head(scan, bytes, len, is_request_line, &request.len);

	if (r == PARSED_MORE)
		return r;
	if (r == PARSED_BAD ||
	    !read_request_line(first_line(bytes, request.len, &request.fields), &request, &is_10))
		return bad(HTTP1_FAULT_MALFORMED, out_fault);
	g = gather(request.fields);
	fault = request_fault(&g, &request, is_10);
	if (fault != HTTP1_FAULT_NONE)
		return bad(fault, out_fault);
	request.host = g.host;
	if (g.coding_count > 0)
		request.framing.kind = HTTP1_CHUNKED;
	else if (g.length > 0)
		request.framing = (struct http1_framing){ HTTP1_LENGTH, g.length };
	request.expects_continue = g.expects_continue;
	request.asks_upgrade = g.says_upgrade && g.upgrade_count > 0 && !is_10;
	request.asks_websocket = request.asks_upgrade && g.names_websocket &&
				 request.method == HTTP1_METHOD_GET &&
				 request.framing.kind == HTTP1_NO_BODY;
	request.is_last = is_last_of_connection(&g, is_10);
	*out_request = request;
	return PARSED_OK;
}

/* --- responses --- */

static enum http1_fault response_fault(const struct gathered *g,
				       const struct http1_response *response, bool is_10)
{
	bool never_has_body = response->status < 200 || response->status == 204;

	if (g->broken || g->location_count > 1 || g->refresh_count > 1)
		return HTTP1_FAULT_MALFORMED;
	/* Section 6.1 forbids a coding there; a length of zero is a common and harmless slip. */
	if (!framing_is_plain(g, is_10) ||
	    (never_has_body && (g->coding_count > 0 || g->length > 0)))
		return HTTP1_FAULT_FRAMING;
	return HTTP1_FAULT_NONE;
}

/* RFC 9112 section 6.3, in its order. */
static struct http1_framing response_framing(const struct gathered *g, unsigned status,
					     enum http1_method asked)
{
	if (asked == HTTP1_METHOD_HEAD || status < 200 || status == 204 || status == 304)
		return (struct http1_framing){ HTTP1_NO_BODY, 0 };
	if (asked == HTTP1_METHOD_CONNECT && status < 300)
		return (struct http1_framing){ HTTP1_UNTIL_CLOSE, 0 };
	if (g->coding_count > 0)
		return (struct http1_framing){ HTTP1_CHUNKED, 0 };
	if (g->length_count == 0)
		return (struct http1_framing){ HTTP1_UNTIL_CLOSE, 0 };
	if (g->length == 0)
		return (struct http1_framing){ HTTP1_NO_BODY, 0 };
	return (struct http1_framing){ HTTP1_LENGTH, g->length };
}

enum parsed http1_response_read(struct http1_scan *scan, const uint8_t *bytes, size_t len,
				enum http1_method asked, struct http1_response *out_response,
				enum http1_fault *out_fault)
{
	struct http1_response response = { 0 };
	struct gathered g;
	enum http1_fault fault;
	bool is_10;
	enum parsed r = scan_head(scan, bytes, len, is_status_line, &response.len);

	if (r == PARSED_MORE)
		return r;
	if (r == PARSED_BAD ||
	    !read_status_line(first_line(bytes, response.len, &response.fields), &response, &is_10))
		return bad(HTTP1_FAULT_MALFORMED, out_fault);
	g = gather(response.fields);
	fault = response_fault(&g, &response, is_10);
	if (fault != HTTP1_FAULT_NONE)
		return bad(fault, out_fault);
	response.is_interim = response.status < 200 && response.status != 101;
	response.framing = response_framing(&g, response.status, asked);
	response.has_location = g.location_count > 0;
	response.location = g.location;
	response.has_refresh = g.refresh_count > 0;
	response.refresh = g.refresh;
	response.upgrades_to_websocket = response.status == 101 && !is_10 && g.says_upgrade &&
					 g.upgrade_count == 1 && g.names_websocket;
	response.is_last =
		is_last_of_connection(&g, is_10) || response.framing.kind == HTTP1_UNTIL_CLOSE;
	*out_response = response;
	return PARSED_OK;
}

/* --- Refresh --- */

static void skip_blanks(struct text *io_rest)
{
	while (io_rest->len > 0 && is_blank(io_rest->at[0])) {
		io_rest->at++;
		io_rest->len--;
	}
}

static bool skip_char(struct text *io_rest, const char *any)
{
	if (io_rest->len == 0 || io_rest->at[0] == '\0' || strchr(any, io_rest->at[0]) == NULL)
		return false;
	io_rest->at++;
	io_rest->len--;
	return true;
}

/* What browsers do with it: the refresh steps of the HTML standard, but for what they skip as
 * noise. */
enum http1_refresh http1_read_refresh(struct text value, struct text *out_url)
{
	size_t digits = 0;
	char quote;

	while (skip_char(&value, "0123456789"))
		digits++;
	while (digits > 0 && skip_char(&value, ".0123456789"))
		;
	if (digits == 0)
		return HTTP1_REFRESH_UNCLEAR;
	if (value.len > 0 && !is_blank(value.at[0]) && value.at[0] != ';' && value.at[0] != ',')
		return HTTP1_REFRESH_UNCLEAR;
	skip_blanks(&value);
	skip_char(&value, ";,");
	skip_blanks(&value);
	if (value.len == 0)
		return HTTP1_REFRESH_RELOADS;
	if (skip_char(&value, "uU")) {
		if (!skip_char(&value, "rR") || !skip_char(&value, "lL"))
			return HTTP1_REFRESH_UNCLEAR;
		skip_blanks(&value);
		if (!skip_char(&value, "="))
			return HTTP1_REFRESH_UNCLEAR;
		skip_blanks(&value);
	}
	if (value.len > 0 && (value.at[0] == '"' || value.at[0] == '\'')) {
		quote = value.at[0];
		if (value.len < 2 || value.at[value.len - 1] != quote ||
		    memchr(value.at + 1, quote, value.len - 2) != NULL)
			return HTTP1_REFRESH_UNCLEAR;
		value = (struct text){ value.at + 1, value.len - 2 };
	}
	*out_url = value;
	return HTTP1_REFRESH_LEADS;
}
