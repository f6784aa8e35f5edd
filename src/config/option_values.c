/* Option types with an inner grammar: texts, paths, lists, bind addresses, sources; see option_internal.h. */
#include "config/option_internal.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX 255
#define LISTENER_WORD "{listener}"

static enum err refuse(char *reason, const char *sentence)
{
	snprintf(reason, OPTION_REASON_MAX, "%s", sentence);
	return ERR_INVALID;
}

static bool starts_with(struct text t, const char *word, struct text *out_rest)
{
	size_t len = strlen(word);

	if (t.len < len || memcmp(t.at, word, len) != 0)
		return false;
	*out_rest = (struct text){ t.at + len, t.len - len };
	return true;
}

static enum err keep_text(struct text value, struct arena *arena, const char **field)
{
	const char *copy = arena_text(arena, value.at, value.len);

	if (copy == NULL)
		return ERR_NO_MEMORY;
	*field = copy;
	return ERR_OK;
}

enum err option_parse_text(struct text value, struct arena *arena, const char **field, char *reason)
{
	if (value.len > TEXT_MAX)
		return refuse(reason, "expected at most 255 characters");
	for (size_t i = 0; i < value.len; i++)
		if (value.at[i] <= ' ' || value.at[i] > '~')
			return refuse(reason, "expected printable ASCII without blanks");
	return keep_text(value, arena, field);
}

enum err option_parse_path(struct text value, struct arena *arena, const char **field, char *reason)
{
	if (text_is(value, "none")) {
		*field = NULL;
		return ERR_OK;
	}
	if (value.at[0] != '/')
		return refuse(reason, "expected an absolute path (it begins with /), or none");
	if (memchr(value.at, '\0', value.len) != NULL)
		return refuse(reason, "a path holds no zero byte");
	return keep_text(value, arena, field);
}

static bool is_separator(char c)
{
	return c == ',' || c == ' ' || c == '\t';
}

/* The next item of a list; empty when none is left. An empty item between two commas reads as none. */
static struct text next_item(struct text *rest)
{
	struct text item;

	while (rest->len > 0 && is_separator(rest->at[0])) {
		rest->at++;
		rest->len--;
	}
	item = (struct text){ rest->at, 0 };
	while (item.len < rest->len && !is_separator(rest->at[item.len]))
		item.len++;
	rest->at += item.len;
	rest->len -= item.len;
	return item;
}

static enum err refuse_item(char *reason, struct text item, const char *sentence)
{
	char shown[80];

	text_escape(item, shown, sizeof(shown));
	snprintf(reason, OPTION_REASON_MAX, "%s: %s", shown, sentence);
	return ERR_INVALID;
}

static enum err keep_prefixes(const struct prefix *list, size_t count, struct arena *arena, struct option_prefixes *field)
{
	struct prefix *kept = NULL;

	if (count > 0) {
		kept = arena_take_array(arena, count, sizeof(*kept));
		if (kept == NULL)
			return ERR_NO_MEMORY;
		memcpy(kept, list, count * sizeof(*kept));
	}
	*field = (struct option_prefixes){ .at = kept, .count = count };
	return ERR_OK;
}

enum err option_parse_prefixes(struct text value, struct arena *arena, struct option_prefixes *field, char *reason)
{
	struct prefix list[OPTION_LIST_MAX];
	size_t count = 0;

	for (struct text item = next_item(&value); item.len > 0; item = next_item(&value)) {
		if (count == OPTION_LIST_MAX)
			return refuse(reason, "expected at most 256 prefixes");
		if (!prefix_parse(item, &list[count++]))
			return refuse_item(reason, item, "expected an address or a prefix without host bits, such as 10.0.0.0/8");
	}
	if (count == 0)
		return refuse(reason, "expected a list of prefixes");
	return keep_prefixes(list, count, arena, field);
}

/* RFC 6052 section 2.2 has these lengths only. */
static bool is_nat64_length(uint8_t len)
{
	return len == 32 || len == 40 || len == 48 || len == 56 || len == 64 || len == 96;
}

enum err option_parse_nat64(struct text value, struct arena *arena, struct option_prefixes *field, char *reason)
{
	struct prefix list[OPTION_LIST_MAX];
	size_t count = 0;

	if (text_is(value, "off"))
		return keep_prefixes(list, 0, arena, field);
	for (struct text item = next_item(&value); item.len > 0; item = next_item(&value)) {
		struct text written = text_is(item, "well-known") ? text_of("64:ff9b::/96") : item;

		if (count == OPTION_LIST_MAX)
			return refuse(reason, "expected at most 256 prefixes");
		if (!prefix_parse(written, &list[count]) || list[count].addr.family != ADDR_V6 ||
		    !is_nat64_length(list[count].len))
			return refuse_item(reason, item, "expected off, well-known, or IPv6 prefixes of length 32, 40, 48, 56, 64 or 96");
		count++;
	}
	if (count == 0)
		return refuse(reason, "expected off, well-known or a list of prefixes");
	return keep_prefixes(list, count, arena, field);
}

#define DNS_PORT 53

enum err option_parse_endpoints(struct text value, struct arena *arena, struct option_endpoints *field, char *reason)
{
	struct endpoint list[OPTION_LIST_MAX];
	struct endpoint *kept;
	size_t count = 0;

	for (struct text item = next_item(&value); item.len > 0; item = next_item(&value)) {
		if (count == OPTION_LIST_MAX)
			return refuse(reason, "expected at most 256 addresses");
		if (!endpoint_parse(item, DNS_PORT, &list[count++]))
			return refuse_item(reason, item, "expected ADDRESS, ADDRESS:PORT or [IPV6]:PORT");
	}
	if (count == 0)
		return refuse(reason, "expected a list of addresses");
	kept = arena_take_array(arena, count, sizeof(*kept));
	if (kept == NULL)
		return ERR_NO_MEMORY;
	memcpy(kept, list, count * sizeof(*kept));
	*field = (struct option_endpoints){ .at = kept, .count = count };
	return ERR_OK;
}

static enum err parse_unix(struct text path, struct arena *arena, struct option_bind *field, char *reason)
{
	struct option_bind bind = { .kind = OPTION_BIND_UNIX };
	const char *brace = memchr(path.at, '{', path.len);
	const char *slash = memrchr(path.at, '/', path.len);
	enum err err;

	if (path.len < 2 || path.at[0] != '/' || slash == path.at + path.len - 1)
		return refuse(reason, "expected unix: and an absolute path of a socket");
	if (path.len > OPTION_UNIX_PATH_MAX)
		return refuse(reason, "the path of a unix socket has at most 107 bytes");
	if (brace != NULL) {
		struct text from = { brace, path.len - (size_t)(brace - path.at) }, rest;

		if (brace < slash || !starts_with(from, LISTENER_WORD, &rest) || memchr(rest.at, '{', rest.len) != NULL)
			return refuse(reason, "{listener} may stand once, in the last part of the path");
		bind.is_template = true;
	}
	err = keep_text(path, arena, &bind.path);
	if (err == ERR_OK)
		*field = bind;
	return err;
}

static bool parse_port(struct text t, uint16_t *out_port)
{
	uint64_t port;

	if (!text_to_u64(t, UINT16_MAX, &port) || port == 0)
		return false;
	*out_port = (uint16_t)port;
	return true;
}

static enum err parse_tcp(struct text t, struct option_bind *field, char *reason)
{
	struct option_bind bind = { .kind = OPTION_BIND_TCP };
	const char *colon = memrchr(t.at, ':', t.len);
	struct text host, ports, last;
	const char *dash;
	bool bracketed;

	if (colon == NULL)
		return refuse(reason, "expected tcp:ADDRESS:PORT");
	host = (struct text){ t.at, (size_t)(colon - t.at) };
	ports = (struct text){ colon + 1, t.len - host.len - 1 };
	bracketed = host.len > 2 && host.at[0] == '[' && host.at[host.len - 1] == ']';
	if (bracketed)
		host = (struct text){ host.at + 1, host.len - 2 };
	if (!addr_parse(host, &bind.addr) || bracketed != (bind.addr.family == ADDR_V6))
		return refuse(reason, "expected tcp:IPV4:PORT or tcp:[IPV6]:PORT");
	dash = memchr(ports.at, '-', ports.len);
	last = ports;
	if (dash != NULL) {
		last = (struct text){ dash + 1, ports.len - (size_t)(dash - ports.at) - 1 };
		ports.len = (size_t)(dash - ports.at);
	}
	if (!parse_port(ports, &bind.port_first) || !parse_port(last, &bind.port_last) || bind.port_first > bind.port_last)
		return refuse(reason, "expected a port from 1 to 65535, or FIRST-LAST for one listener each");
	bind.is_template = dash != NULL;
	*field = bind;
	return ERR_OK;
}

enum err option_parse_bind(struct text value, struct arena *arena, struct option_bind *field, char *reason)
{
	struct text rest;

	if (text_is(value, "none")) {
		*field = (struct option_bind){ .kind = OPTION_BIND_NONE };
		return ERR_OK;
	}
	if (starts_with(value, "unix:", &rest))
		return parse_unix(rest, arena, field, reason);
	if (starts_with(value, "tcp:", &rest))
		return parse_tcp(rest, field, reason);
	return refuse(reason, "expected tcp:ADDRESS:PORT or unix:PATH");
}

/* host:port,host:port with nothing else around. */
static bool is_host_list(struct text t)
{
	if (t.len == 0)
		return false;
	while (t.len > 0) {
		const char *comma = memchr(t.at, ',', t.len);
		struct text item = { t.at, comma == NULL ? t.len : (size_t)(comma - t.at) };
		const char *colon = memrchr(item.at, ':', item.len);
		size_t taken = item.len + (comma != NULL);
		uint16_t port;

		if (colon == NULL || colon == item.at || (comma != NULL && taken == t.len))
			return false;
		if (!parse_port((struct text){ colon + 1, item.len - (size_t)(colon - item.at) - 1 }, &port))
			return false;
		t.at += taken;
		t.len -= taken;
	}
	return true;
}

enum err option_parse_source(struct text value, struct arena *arena, struct option_source *field, char *reason)
{
	struct option_source source = { .kind = OPTION_SOURCE_NONE };
	struct text rest;
	enum err err;

	for (size_t i = 0; i < value.len; i++)
		if (value.at[i] < ' ' || value.at[i] > '~')
			return refuse(reason, "expected printable ASCII");
	if (starts_with(value, "file:", &rest)) {
		source.kind = OPTION_SOURCE_FILE;
		if (rest.len == 0 || rest.at[0] != '/')
			return refuse(reason, "expected file: and the absolute path of a policy root");
	} else if (starts_with(value, "https://", &rest)) {
		source.kind = OPTION_SOURCE_HTTPS;
		if (rest.len == 0 || rest.at[0] == '/' || memchr(rest.at, '@', rest.len) != NULL ||
		    memchr(rest.at, ' ', rest.len) != NULL)
			return refuse(reason, "expected https://HOST… without a user name or password");
		rest = value;
	} else if (starts_with(value, "etcd://", &rest)) {
		source.kind = OPTION_SOURCE_ETCD;
		if (!is_host_list(rest) || memchr(rest.at, ' ', rest.len) != NULL || memchr(rest.at, '@', rest.len) != NULL)
			return refuse(reason, "expected etcd://HOST:PORT,HOST:PORT");
	} else {
		return refuse(reason, "expected file:ROOT, https://… or etcd://HOST:PORT,…");
	}
	err = keep_text(rest, arena, &source.text);
	if (err == ERR_OK)
		*field = source;
	return err;
}

void option_print_prefixes(const struct option_prefixes *field, char *out_text)
{
	size_t len = 0;

	for (size_t i = 0; i < field->count; i++) {
		const struct prefix *p = &field->at[i];
		char text[PREFIX_TEXT_MAX];

		if (p->len == addr_len(&p->addr) * 8)
			addr_print(&p->addr, text);
		else
			prefix_print(p, text);
		len += (size_t)snprintf(out_text + len, OPTION_VALUE_MAX - len, "%s%s", i == 0 ? "" : ",", text);
		if (len >= OPTION_VALUE_MAX)
			return;
	}
}

void option_print_endpoints(const struct option_endpoints *field, char *out_text)
{
	size_t len = 0;

	for (size_t i = 0; i < field->count; i++) {
		char text[ENDPOINT_TEXT_MAX];

		if (field->at[i].port == DNS_PORT)
			addr_print(&field->at[i].addr, text);
		else
			endpoint_print(&field->at[i], text);
		len += (size_t)snprintf(out_text + len, OPTION_VALUE_MAX - len, "%s%s", i == 0 ? "" : ",", text);
		if (len >= OPTION_VALUE_MAX)
			return;
	}
}

void option_print_bind(const struct option_bind *field, char *out_text)
{
	char addr[ADDR_TEXT_MAX], ports[16] = "";
	bool v6 = field->addr.family == ADDR_V6;

	if (field->kind == OPTION_BIND_UNIX)
		snprintf(out_text, OPTION_VALUE_MAX, "unix:%s", field->path);
	if (field->kind != OPTION_BIND_TCP)
		return;
	if (field->is_template)
		snprintf(ports, sizeof(ports), "-%u", field->port_last);
	snprintf(out_text, OPTION_VALUE_MAX, "tcp:%s%s%s:%u%s", v6 ? "[" : "", addr_print(&field->addr, addr), v6 ? "]" : "",
		 field->port_first, ports);
}

void option_print_source(const struct option_source *field, char *out_text)
{
	static const char *const before[] = {
		[OPTION_SOURCE_FILE] = "file:",
		[OPTION_SOURCE_HTTPS] = "",
		[OPTION_SOURCE_ETCD] = "etcd://",
	};

	if (field->kind != OPTION_SOURCE_NONE)
		snprintf(out_text, OPTION_VALUE_MAX, "%s%s", before[field->kind], field->text);
}
