/* Prints rules in the grammar of contract section 1; compiler/pattern reads the same. Decides
 * nothing. */
#include "facts/rule.h"

#include "base/sink.h"

static void print_host(struct sink *s, const struct rule *r)
{
	char text[ADDR_TEXT_MAX];
	bool v6 = r->prefix.addr.family == ADDR_V6;

	switch (r->host) {
	case RULE_HOST_ANY:
		sink_text(s, "any");
		break;
	case RULE_HOST_WILDCARD:
		sink_text(s, "*.");
		sink_text(s, r->name.text);
		break;
	case RULE_HOST_NAME:
		sink_text(s, r->name.text);
		break;
	case RULE_HOST_PREFIX:
		sink_text(s, v6 ? "[" : "");
		sink_text(s, addr_print(&r->prefix.addr, text));
		if (r->prefix.len < addr_len(&r->prefix.addr) * 8)
			sink_format(s, "/%u", (unsigned)r->prefix.len);
		sink_text(s, v6 ? "]" : "");
		break;
	}
}

/* Ports that the scheme implies are left out, as people write them. */
static bool ports_are_default(const struct rule *r)
{
	uint16_t port = r->scheme_known ? scheme_row(r->scheme)->default_port : 0;

	return r->port_count == 1 && port != 0 && r->ports[0].first == port &&
	       r->ports[0].last == port;
}

static void print_ports(struct sink *s, const struct rule *r)
{
	if (r->port_count == 0 || ports_are_default(r))
		return;
	for (unsigned i = 0; i < r->port_count && i < RULE_PORTS_MAX; i++) {
		sink_format(s, "%c%u", i == 0 ? ':' : ',', (unsigned)r->ports[i].first);
		if (r->ports[i].last != r->ports[i].first)
			sink_format(s, "-%u", (unsigned)r->ports[i].last);
	}
}

const char *rule_print(const struct rule *r, char out_text[RULE_TEXT_MAX])
{
	struct sink s = sink_over(out_text, RULE_TEXT_MAX - 1);

	if (r->scheme_known) {
		sink_text(&s, scheme_row(r->scheme)->word);
		sink_text(&s, "://");
	}
	print_host(&s, r);
	print_ports(&s, r);
	out_text[s.len] = '\0';
	return out_text;
}
