/*
 * One reading of a URL, and only where there is one: whatever RFC 3986 and the browsers' URL
 * Standard take for different authorities is refused, so that the client cannot go where we did not
 * look. Called by proxy/redirect, the HTTP filters, the HTTP front and the tools.
 */
#include "wire/url.h"

#include <string.h>

#define SCHEME_LEN_MAX 5

static struct text text_from(struct text t, size_t at)
{
	return (struct text){ t.at + at, t.len - at };
}

/* How many leading characters are none of `stops`. */
static size_t span_until(struct text t, const char *stops)
{
	size_t len = 0;

	while (len < t.len && strchr(stops, t.at[len]) == NULL)
		len++;
	return len;
}

static bool is_letter(char c)
{
	c = text_lower(c);
	return c >= 'a' && c <= 'z';
}

/* --- authorities --- */

static bool read_port(struct text t, uint16_t *out_port)
{
	uint64_t port;

	if (!text_to_u64(t, UINT16_MAX, &port) || port == 0)
		return false;
	*out_port = (uint16_t)port;
	return true;
}

static bool read_bracketed(struct text t, struct url_host *host, size_t *out_len)
{
	size_t len = span_until(t, "]");

	if (len == t.len || !addr_parse((struct text){ t.at + 1, len - 1 }, &host->addr) ||
	    host->addr.family != ADDR_V6)
		return false;
	host->is_address = true;
	*out_len = len + 1;
	return true;
}

static bool read_bare(struct text t, struct url_host *host)
{
	if (addr_parse(t, &host->addr)) {
		host->is_address = true;
		return host->addr.family == ADDR_V4;
	}
	/* A number that is no address is one to some readers: dname_parse refuses it. */
	return dname_parse(t, DNAME_FINAL_DOT_DROP, &host->name) == DNAME_OK;
}

bool url_read_host(struct text t, uint16_t default_port, struct url_host *out_host)
{
	struct url_host host = { .port = default_port };
	size_t len;

	if (t.len > 0 && t.at[0] == '[') {
		if (!read_bracketed(t, &host, &len))
			return false;
	} else {
		len = span_until(t, ":");
		if (!read_bare((struct text){ t.at, len }, &host))
			return false;
	}
	if (len < t.len && (t.at[len] != ':' || !read_port(text_from(t, len + 1), &host.port)))
		return false;
	if (host.port == 0)
		return false;
	*out_host = host;
	return true;
}

bool url_host_equal(const struct url_host *a, const struct url_host *b)
{
	if (a->is_address != b->is_address || a->port != b->port)
		return false;
	return a->is_address ? addr_equal(&a->addr, &b->addr) : dname_equal(&a->name, &b->name);
}

/* --- whole URLs --- */

/* Characters that browsers drop, turn into slashes or encode, each in its own way, whatever they
 * stand in. */
static bool is_suspect(struct text t)
{
	for (size_t i = 0; i < t.len; i++) {
		unsigned char c = (unsigned char)t.at[i];

		if (c <= 0x20 || c == 0x7f || c == '\\')
			return true;
	}
	return false;
}

/* The length of a scheme with its colon in front of `t`; 0 when there is none. */
static size_t scheme_len(struct text t)
{
	size_t len = 0;

	if (t.len == 0 || !is_letter(t.at[0]))
		return 0;
	while (len < t.len && (is_letter(t.at[len]) || text_is_digit(t.at[len]) ||
			       t.at[len] == '+' || t.at[len] == '-' || t.at[len] == '.'))
		len++;
	return len < t.len && t.at[len] == ':' ? len + 1 : 0;
}

static bool read_scheme(struct text word, enum scheme *out_scheme)
{
	char lower[SCHEME_LEN_MAX];

	if (word.len > sizeof(lower))
		return false;
	for (size_t i = 0; i < word.len; i++)
		lower[i] = text_lower(word.at[i]);
	return scheme_parse((struct text){ lower, word.len }, out_scheme);
}

/* Read "//authority…" as it follows a scheme. */
static bool read_network_path(struct text t, enum scheme scheme, struct url *out_url)
{
	struct url url = { .scheme = scheme };
	struct text rest;
	size_t len;

	if (t.len < 2 || t.at[0] != '/' || t.at[1] != '/')
		return false;
	t = text_from(t, 2);
	len = span_until(t, "/?#");
	rest = text_from(t, len);
	/* Readers that look for the last @ before a slash take "host#@other/" for user-info. */
	if (rest.len > 0 && rest.at[0] != '/' && memchr(rest.at, '@', rest.len) != NULL)
		return false;
	if (!url_read_host((struct text){ t.at, len }, scheme_row(scheme)->default_port, &url.host))
		return false;
	*out_url = url;
	return true;
}

bool url_read(struct text t, struct url *out_url)
{
	size_t len = scheme_len(t);
	enum scheme scheme;

	if (len == 0 || is_suspect(t) || !read_scheme((struct text){ t.at, len - 1 }, &scheme))
		return false;
	return read_network_path(text_from(t, len), scheme, out_url);
}

/* Take one "." or %2e from the front of a path segment. */
static bool take_dot(struct text *io_segment)
{
	static const struct text spellings[] = { { ".", 1 }, { "%2e", 3 } };

	for (size_t i = 0; i < ARRAY_LEN(spellings); i++) {
		size_t len = spellings[i].len;

		if (io_segment->len >= len &&
		    text_equal_nocase((struct text){ io_segment->at, len }, spellings[i])) {
			*io_segment = text_from(*io_segment, len);
			return true;
		}
	}
	return false;
}

static bool is_dot_segment(struct text segment)
{
	if (!take_dot(&segment))
		return false;
	take_dot(&segment);
	return segment.len == 0;
}

/*
 * Could removing dot segments (RFC 3986 section 5.2.4) make this path start with two slashes, as an
 * authority does? Where both are in it, the answer depends on the path of the base, which is not
 * known here.
 */
static bool may_turn_into_network_path(struct text path)
{
	bool has_dots = false, has_empty = false;

	path.len = span_until(path, "?#");
	for (;;) {
		size_t len = span_until(path, "/");

		has_dots |= is_dot_segment((struct text){ path.at, len });
		if (len == path.len)
			return has_dots && has_empty;
		path = text_from(path, len + 1);
		has_empty |= path.len > 0 && path.at[0] == '/';
	}
}

bool url_resolve(struct text reference, const struct url *base, struct url *out_url)
{
	size_t first_len;

	if (is_suspect(reference))
		return false;
	if (scheme_len(reference) > 0)
		return url_read(reference, out_url);
	if (reference.len >= 2 && reference.at[0] == '/' && reference.at[1] == '/')
		return read_network_path(reference, base->scheme, out_url);
	/* A colon in the first segment would be a scheme to a reader with other letters
	 * (section 4.2). */
	first_len = span_until(reference, "/?#");
	if (span_until(reference, ":") < first_len || may_turn_into_network_path(reference))
		return false;
	*out_url = *base;
	return true;
}
