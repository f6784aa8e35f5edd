/* Targets of requests; see serve_target.h. A name is decoded once and must then be one that a cell or proxy can have. */
#include "serve/serve_target.h"

#include <string.h>

#define CURSOR_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
#define KEY_CHARACTERS CURSOR_CHARACTERS ":/"

/* Only these characters, and at least one? */
static bool is_made_of(struct text t, const char *characters)
{
	for (size_t i = 0; i < t.len; i++)
		if (t.at[i] == '\0' || strchr(characters, t.at[i]) == NULL)
			return false;
	return t.len > 0;
}

/* Take `what` off the front. */
static bool take(struct text *t, const char *what)
{
	size_t len = strlen(what);

	if (t->len < len || memcmp(t->at, what, len) != 0)
		return false;
	t->at += len;
	t->len -= len;
	return true;
}

static int hex(char c)
{
	c = text_lower(c);
	if (text_is_digit(c))
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* RFC 3986 section 2.1. */
static bool decode_name(struct text coded, char out_name[LEASE_DOC_ID_MAX + 1])
{
	size_t len = 0;

	while (coded.len > 0) {
		char c = coded.at[0];
		size_t taken = c == '%' ? 3 : 1;

		if (len == LEASE_DOC_ID_MAX || coded.len < taken)
			return false;
		if (c == '%') {
			int high = hex(coded.at[1]), low = hex(coded.at[2]);

			if (high < 0 || low < 0)
				return false;
			c = (char)(high * 16 + low);
		}
		out_name[len++] = c;
		coded.at += taken;
		coded.len -= taken;
	}
	out_name[len] = '\0';
	return lease_doc_id_is_valid((struct text){ out_name, len });
}

/* "{name}/last" behind a prefix. */
static enum serve_target_fault read_named(struct text rest, const char *last, struct serve_target *target)
{
	const char *slash = rest.len == 0 ? NULL : memchr(rest.at, '/', rest.len);
	struct text name = { rest.at, slash == NULL ? 0 : (size_t)(slash - rest.at) };

	if (slash == NULL || !text_is((struct text){ slash + 1, rest.len - name.len - 1 }, last))
		return SERVE_TARGET_UNKNOWN;
	return decode_name(name, target->name) ? SERVE_TARGET_GOOD : SERVE_TARGET_MALFORMED;
}

static bool read_cursor(struct text query, char out_cursor[SERVE_CURSOR_MAX + 1])
{
	if (!take(&query, "cursor=") || query.len > SERVE_CURSOR_MAX || !is_made_of(query, CURSOR_CHARACTERS))
		return false;
	memcpy(out_cursor, query.at, query.len);
	out_cursor[query.len] = '\0';
	return true;
}

enum serve_target_fault serve_target_read(struct text target, struct serve_target *out_target)
{
	const char *mark = target.len == 0 ? NULL : memchr(target.at, '?', target.len);
	struct text path = { target.at, mark == NULL ? target.len : (size_t)(mark - target.at) };
	struct text query = { mark == NULL ? "" : mark + 1, mark == NULL ? 0 : target.len - path.len - 1 };
	struct serve_target read = { .name = "", .cursor = "" };
	enum serve_target_fault fault;

	if (take(&path, "/v1/cells/")) {
		read.route = SERVE_ROUTE_STREAM;
		fault = read_named(path, "stream", &read);
		if (fault == SERVE_TARGET_GOOD && mark != NULL && !read_cursor(query, read.cursor))
			fault = SERVE_TARGET_MALFORMED;
	} else {
		read.route = SERVE_ROUTE_STATUS;
		fault = SERVE_TARGET_UNKNOWN;
		if (take(&path, "/v1/proxies/")) {
			fault = read_named(path, "status", &read);
		} else if (text_is(path, "/v1/decisions")) {
			read.route = SERVE_ROUTE_DECISIONS;
			fault = SERVE_TARGET_GOOD;
		}
		if (fault == SERVE_TARGET_GOOD && mark != NULL)
			fault = SERVE_TARGET_MALFORMED;
	}
	if (fault == SERVE_TARGET_GOOD)
		*out_target = read;
	return fault;
}

static struct text trimmed(struct text t)
{
	while (t.len > 0 && (t.at[0] == ' ' || t.at[0] == '\t')) {
		t.at++;
		t.len--;
	}
	while (t.len > 0 && (t.at[t.len - 1] == ' ' || t.at[t.len - 1] == '\t'))
		t.len--;
	return t;
}

bool serve_target_wait(struct text prefer, unsigned *out_wait_s)
{
	while (prefer.len > 0) {
		const char *comma = memchr(prefer.at, ',', prefer.len);
		struct text one = { prefer.at, comma == NULL ? prefer.len : (size_t)(comma - prefer.at) };
		uint64_t seconds;

		prefer.at += one.len + (comma != NULL);
		prefer.len -= one.len + (comma != NULL);
		one = trimmed(one);
		if (!take(&one, "wait="))
			continue;
		if (!text_to_u64(one, 1000000, &seconds))
			return false;
		*out_wait_s = seconds > SERVE_TARGET_WAIT_MAX_S ? SERVE_TARGET_WAIT_MAX_S : (unsigned)seconds;
		return true;
	}
	return false;
}

bool serve_target_key(struct text value, char out_key[SERVE_TARGET_KEY_MAX + 1])
{
	if (value.len >= 2 && value.at[0] == '"' && value.at[value.len - 1] == '"')
		value = (struct text){ value.at + 1, value.len - 2 };
	if (value.len > SERVE_TARGET_KEY_MAX || !is_made_of(value, KEY_CHARACTERS))
		return false;
	memcpy(out_key, value.at, value.len);
	out_key[value.len] = '\0';
	return true;
}
