/*
 * The rule grammar of contract section 1, read left to right: scheme, host, ports. See pattern.h. The only includer of <libpsl.h>; knows no
 * policy around the rule. Faults say what was wrong, what was expected and what to write instead.
 */
#include "compiler/pattern.h"

#include <libpsl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compiler/idna.h"

#define SHOWN_MAX 96

/* What is being read, and where a fault goes. */
struct reading {
	struct text whole;
	struct pattern_fault *fault;
	enum pattern_names names;
};

static enum err refuse(struct reading *r, struct text part, const char *code, const char *format, ...) ATTR_PRINTF(4, 5);
static enum err refuse(struct reading *r, struct text part, const char *code, const char *format, ...)
{
	va_list args;

	*r->fault = (struct pattern_fault){
		.code = code,
		.at = (uint32_t)(part.at - r->whole.at),
		.len = (uint32_t)part.len,
	};
	va_start(args, format);
	vsnprintf(r->fault->reason, sizeof(r->fault->reason), format, args);
	va_end(args);
	return ERR_INVALID;
}

static const char *shown(struct text t, char room[SHOWN_MAX])
{
	text_escape(t, room, SHOWN_MAX);
	return room;
}

static struct text after(struct text t, size_t skip)
{
	return (struct text){ t.at + skip, t.len - skip };
}

static bool starts_with(struct text t, const char *word)
{
	size_t len = strlen(word);

	return t.len >= len && memcmp(t.at, word, len) == 0;
}

static bool is_suffix(const char *name, int types)
{
	const psl_ctx_t *list = psl_builtin();

	return list != NULL && psl_is_public_suffix2(list, name, types) != 0;
}

bool pattern_is_public_suffix(const struct dname *name)
{
	/* Without its list the check could not refuse anything, so then every name counts as a suffix. */
	return psl_builtin() == NULL || is_suffix(name->text, PSL_TYPE_ANY);
}

bool pattern_is_shared_suffix(const struct dname *name)
{
	return name->label_count > 1 && is_suffix(name->text, PSL_TYPE_PRIVATE) && !is_suffix(name->text, PSL_TYPE_ICANN);
}

static enum err read_ascii_name(struct reading *r, struct text part, struct text name, struct dname *out_name)
{
	char room[SHOWN_MAX];

	switch (dname_parse(name, DNAME_FINAL_DOT_DROP, out_name)) {
	case DNAME_OK:
		return ERR_OK;
	case DNAME_NUMERIC:
		return refuse(r, part, "host_invalid",
			      "%s ends in a number but is no address; write an IPv4 address as four decimal octets",
			      shown(name, room));
	case DNAME_INVALID:
		break;
	}
	return refuse(r, part, "host_invalid",
		      "%s is no host name; expected labels of letters, digits, - and _ (1 to 63 characters each, 253 together)",
		      shown(name, room));
}

static bool has_unicode(struct text t)
{
	for (size_t i = 0; i < t.len; i++)
		if ((unsigned char)t.at[i] >= 0x80)
			return true;
	return false;
}

static enum err read_name(struct reading *r, struct text part, struct text name, struct dname *out_name)
{
	char ascii[DNAME_MAX + 2], room[SHOWN_MAX];
	const char *reason;
	enum err err;

	if (!has_unicode(name))
		return read_ascii_name(r, part, name, out_name);
	if (r->names == PATTERN_ASCII_ONLY)
		return refuse(r, part, "host_unicode", "names are ASCII here; write the xn-- form of %s", shown(name, room));
	err = idna_to_ascii(name, ascii, &reason);
	if (err == ERR_INVALID)
		return refuse(r, part, "host_unicode", "%s is no valid name (%s); write it in lower case or in its xn-- form",
			      shown(name, room), reason);
	return err != ERR_OK ? err : read_ascii_name(r, part, text_of(ascii), out_name);
}

static enum err read_wildcard(struct reading *r, struct text host, struct rule *rule)
{
	enum err err = read_name(r, host, after(host, 2), &rule->name);

	if (err != ERR_OK)
		return err;
	rule->host = RULE_HOST_WILDCARD;
	if (pattern_is_shared_suffix(&rule->name))
		return refuse(r, host, "public_suffix",
			      "anybody can rent a name below %s; name the owner too: *.OWNER.%s, or list the hosts",
			      rule->name.text, rule->name.text);
	if (pattern_is_public_suffix(&rule->name))
		return refuse(r, host, "public_suffix", "%s is a public suffix with many owners; name one: *.OWNER.%s",
			      rule->name.text, rule->name.text);
	return ERR_OK;
}

/* An address or prefix without brackets or with them taken away. `part` is what a fault points at. */
static enum err read_prefix(struct reading *r, struct text part, struct text inner, enum addr_family family,
			    struct rule *rule)
{
	char room[SHOWN_MAX];

	if (!prefix_parse(inner, &rule->prefix) || rule->prefix.addr.family != family)
		return refuse(r, part, "address_invalid",
			      "%s is no IPv%d address or prefix; expected %s without bits set beyond the length",
			      shown(inner, room), (int)family, family == ADDR_V4 ? "such as 192.0.2.0/24" : "such as [2001:db8::/32]");
	rule->host = RULE_HOST_PREFIX;
	return ERR_OK;
}

/* A slash: the length of an IPv4 prefix, or the path of a URL that somebody pasted. */
static enum err read_slashed(struct reading *r, struct text host, const char *slash, struct rule *rule)
{
	struct text before = { host.at, (size_t)(slash - host.at) };
	struct text path = { slash, host.len - before.len };
	struct addr addr;
	char room[SHOWN_MAX];

	if (path.len > 1 && text_is_digit(path.at[1]) && addr_parse(before, &addr))
		return read_prefix(r, host, host, ADDR_V4, rule);
	return refuse(r, path, "path", "a rule ends with the host and port; leave out %s", shown(path, room));
}

static enum err read_host(struct reading *r, struct text host, struct rule *rule)
{
	const char *slash = memchr(host.at, '/', host.len);
	struct addr addr;

	if (host.len == 0)
		return refuse(r, host, "host_missing", "the host is missing");
	if (slash != NULL)
		return read_slashed(r, host, slash, rule);
	if (text_is(host, "*") || text_is(host, "*."))
		return refuse(r, host, "host_star", "* alone is not a host; name what is below it: *.example.org");
	if (starts_with(host, "*."))
		return read_wildcard(r, host, rule);
	if (memchr(host.at, '*', host.len) != NULL)
		return refuse(r, host, "host_star", "* may only stand for the whole first label: *.example.org");
	if (addr_parse(host, &addr))
		return read_prefix(r, host, host, ADDR_V4, rule);
	rule->host = RULE_HOST_NAME;
	return read_name(r, host, host, &rule->name);
}

/* [IPv6] or [IPv6/length]; what follows the bracket goes to *out_rest. */
static enum err read_bracketed(struct reading *r, struct text t, struct rule *rule, struct text *out_rest)
{
	const char *close = memchr(t.at, ']', t.len);
	struct text part;
	enum err err;

	if (close == NULL)
		return refuse(r, t, "address_invalid", "the bracket is not closed; write [IPV6] or [IPV6/LENGTH]");
	part = (struct text){ t.at, (size_t)(close - t.at) + 1 };
	err = read_prefix(r, part, (struct text){ t.at + 1, part.len - 2 }, ADDR_V6, rule);
	if (err == ERR_OK)
		*out_rest = after(t, part.len);
	return err;
}

static bool read_port(struct text t, uint16_t *out_port)
{
	uint64_t port;

	if (!text_to_u64(t, UINT16_MAX, &port) || port == 0)
		return false;
	*out_port = (uint16_t)port;
	return true;
}

static bool read_range(struct text t, struct rule_ports *out_range)
{
	const char *dash = memchr(t.at, '-', t.len);
	struct text first = { t.at, dash == NULL ? t.len : (size_t)(dash - t.at) };
	struct text last = dash == NULL ? first : after(t, first.len + 1);

	return read_port(first, &out_range->first) && read_port(last, &out_range->last) && out_range->first <= out_range->last;
}

/* Put one range where it belongs and join what overlaps or touches. False when there are too many. */
static bool add_range(struct rule *rule, struct rule_ports range)
{
	struct rule_ports kept[RULE_PORTS_MAX + 1];
	unsigned count = 0, i = 0;

	while (i < rule->port_count && (uint32_t)rule->ports[i].last + 1 < range.first)
		kept[count++] = rule->ports[i++];
	for (; i < rule->port_count && rule->ports[i].first <= (uint32_t)range.last + 1; i++) {
		if (rule->ports[i].first < range.first)
			range.first = rule->ports[i].first;
		if (rule->ports[i].last > range.last)
			range.last = rule->ports[i].last;
	}
	kept[count++] = range;
	while (i < rule->port_count)
		kept[count++] = rule->ports[i++];
	if (count > RULE_PORTS_MAX)
		return false;
	memcpy(rule->ports, kept, count * sizeof(kept[0]));
	rule->port_count = (uint8_t)count;
	return true;
}

static enum err read_ports(struct reading *r, struct text list, struct rule *rule)
{
	char room[SHOWN_MAX];

	for (;;) {
		const char *comma = memchr(list.at, ',', list.len);
		struct text item = { list.at, comma == NULL ? list.len : (size_t)(comma - list.at) };
		const char *slash = memchr(item.at, '/', item.len);
		struct rule_ports range;

		if (slash != NULL) {
			struct text path = after(item, (size_t)(slash - item.at));

			return refuse(r, path, "path", "a rule ends with the host and port; leave out %s", shown(path, room));
		}
		if (!read_range(item, &range))
			return refuse(r, item, "port_invalid",
				      "%s is no port; expected 1 to 65535, or a range such as 8000-8099", shown(item, room));
		if (!add_range(rule, range))
			return refuse(r, item, "port_invalid", "at most %d port ranges fit in one rule; use several rules",
				      RULE_PORTS_MAX);
		if (comma == NULL)
			return ERR_OK;
		list = after(list, item.len + 1);
	}
}

/* host [":" ports] */
static enum err read_host_and_ports(struct reading *r, struct text t, struct rule *rule)
{
	const char *colon = memchr(t.at, ':', t.len);
	struct text host = { t.at, colon == NULL ? t.len : (size_t)(colon - t.at) };
	struct text rest = after(t, host.len);
	struct addr addr;
	enum err err;

	if (memchr(t.at, '@', t.len) != NULL)
		return refuse(r, t, "user_info", "a rule holds no user name; leave out everything up to @");
	if (t.len > 0 && t.at[0] == '[') {
		err = read_bracketed(r, t, rule, &rest);
		if (err == ERR_OK && rest.len > 0 && rest.at[0] != ':')
			return refuse(r, rest, rest.at[0] == '/' ? "path" : "port_invalid",
				      "expected the end or :PORT after the bracket; a length stands inside it: [2001:db8::/32]");
	} else {
		if (colon != NULL && memchr(colon + 1, ':', rest.len - 1) != NULL && addr_parse(t, &addr))
			return refuse(r, t, "address_invalid", "write IPv6 addresses in brackets: [%.*s]", (int)t.len, t.at);
		err = read_host(r, host, rule);
	}
	if (err != ERR_OK || rest.len == 0)
		return err;
	return read_ports(r, after(rest, 1), rule);
}

static enum err check_shape(struct reading *r)
{
	if (r->whole.len == 0)
		return refuse(r, r->whole, "empty", "the rule is empty");
	if (r->whole.len > RULE_TEXT_MAX)
		return refuse(r, r->whole, "too_long", "a rule has at most %d bytes", RULE_TEXT_MAX);
	for (size_t i = 0; i < r->whole.len; i++) {
		unsigned char c = (unsigned char)r->whole.at[i];

		if (c <= ' ' || c == 0x7f)
			return refuse(r, (struct text){ r->whole.at + i, 1 }, "blank", "a blank or control character inside the rule");
	}
	return ERR_OK;
}

static const char *where_is(struct text t, const char *what)
{
	return memmem(t.at, t.len, what, strlen(what));
}

static enum err read_scheme(struct reading *r, struct rule *rule, struct text *out_rest)
{
	const char *mark = where_is(r->whole, "://");
	struct text word;
	char room[SHOWN_MAX];

	if (mark == NULL)
		return refuse(r, r->whole, "scheme_missing", "expected SCHEME://HOST; did you mean https://%s?",
			      shown(r->whole, room));
	word = (struct text){ r->whole.at, (size_t)(mark - r->whole.at) };
	if (!scheme_parse(word, &rule->scheme))
		return refuse(r, word, "scheme_unknown", "%s is no scheme; expected https, http, ws, ssh or tcp",
			      shown(word, room));
	rule->scheme_known = true;
	*out_rest = after(r->whole, word.len + 3);
	return ERR_OK;
}

/* What the scheme demands of host and ports. */
static enum err fit_scheme(struct reading *r, struct text host, struct rule *rule)
{
	const struct scheme_row *row = scheme_row(rule->scheme);

	if (rule->host == RULE_HOST_PREFIX && !row->takes_addresses)
		return refuse(r, host, "address_scheme", "%s needs a name; an address can be allowed with tcp, ssh or http", row->word);
	if (rule->port_count > 0)
		return ERR_OK;
	if (row->default_port == 0)
		return refuse(r, host, "port_missing", "%s needs a port: %.*s:PORT", row->word, (int)r->whole.len, r->whole.at);
	rule->ports[0] = (struct rule_ports){ row->default_port, row->default_port };
	rule->port_count = 1;
	return ERR_OK;
}

enum err pattern_parse(struct text text, enum rule_action action, enum pattern_names names, struct rule *out_rule,
		       struct pattern_fault *out_fault)
{
	struct reading r = { .whole = text, .fault = out_fault, .names = names };
	struct rule rule = { .action = action };
	struct text rest = text;
	enum err err = check_shape(&r);

	if (err == ERR_OK && action == RULE_ALLOW)
		err = read_scheme(&r, &rule, &rest);
	if (err == ERR_OK && action == RULE_DENY && where_is(text, "://") != NULL)
		return refuse(&r, text, "scheme_unknown", "deny is blind to the scheme; leave out everything up to ://");
	if (err == ERR_OK)
		err = read_host_and_ports(&r, rest, &rule);
	if (err == ERR_OK && action == RULE_ALLOW)
		err = fit_scheme(&r, rest, &rule);
	if (err == ERR_OK)
		*out_rule = rule;
	return err;
}

enum err pattern_parse_host(struct text text, enum pattern_names names, struct rule *out_rule, struct pattern_fault *out_fault)
{
	struct reading r = { .whole = text, .fault = out_fault, .names = names };
	struct rule rule = { .action = RULE_ALLOW };
	enum err err = check_shape(&r);

	if (err == ERR_OK)
		err = read_host_and_ports(&r, text, &rule);
	if (err == ERR_OK && rule.port_count > 0)
		return refuse(&r, text, "port_invalid", "a host without a port is expected here");
	if (err == ERR_OK)
		*out_rule = rule;
	return err;
}

/* Leave out what a URL has behind host and port. */
static struct text without_path(struct text t)
{
	const char *mark = where_is(t, "://");
	size_t at = mark == NULL ? 0 : (size_t)(mark - t.at) + 3;

	while (at < t.len && t.at[at] != '/' && t.at[at] != '?' && t.at[at] != '#')
		at++;
	return (struct text){ t.at, at };
}

enum err pattern_parse_target(struct text text, struct rule *out_rule, struct pattern_fault *out_fault)
{
	struct text short_text = without_path(text);
	struct reading r = { .whole = short_text, .fault = out_fault, .names = PATTERN_UNICODE_TOO };
	struct rule rule;
	enum err err = pattern_parse(short_text, RULE_ALLOW, PATTERN_UNICODE_TOO, &rule, out_fault);
	bool is_single;

	if (err != ERR_OK)
		return err;
	is_single = rule.host == RULE_HOST_NAME ||
		    (rule.host == RULE_HOST_PREFIX && rule.prefix.len == addr_len(&rule.prefix.addr) * 8);
	if (!is_single || rule.port_count != 1 || rule.ports[0].first != rule.ports[0].last)
		return refuse(&r, short_text, "not_a_target", "expected one host and one port, such as https://example.org");
	*out_rule = rule;
	return ERR_OK;
}
