/* Host texts to targets and back. Accepts one spelling of each thing; what an address or name is
 * good for is not known here. */
#include "facts/target.h"

#include <stdio.h>
#include <string.h>

static bool holds(struct text t, char c)
{
	return t.len > 0 && memchr(t.at, c, t.len) != NULL;
}

/* IPv6 text alone or in one pair of brackets. `host` has a colon, so IPv4 cannot come out. */
static bool parse_v6(struct text host, struct addr *out_addr)
{
	if (host.len >= 2 && host.at[0] == '[' && host.at[host.len - 1] == ']')
		host = (struct text){ host.at + 1, host.len - 2 };
	return addr_parse(host, out_addr);
}

enum target_result target_from_host(struct text host, uint16_t port, struct target *out_target)
{
	struct target target = { .kind = TARGET_NAME, .port = port };
	struct addr addr;

	if (holds(host, ':') ? parse_v6(host, &addr) : addr_parse(host, &addr)) {
		target_from_addr(&addr, port, out_target);
		return TARGET_OK;
	}
	switch (dname_parse(host, DNAME_FINAL_DOT_DROP, &target.name)) {
	case DNAME_OK:
		*out_target = target;
		return TARGET_OK;
	case DNAME_NUMERIC:
		return TARGET_LITERAL_IN_NAME;
	case DNAME_INVALID:
		break;
	}
	return TARGET_NAME_INVALID;
}

void target_from_addr(const struct addr *addr, uint16_t port, struct target *out_target)
{
	*out_target = (struct target){ .kind = TARGET_ADDRESS, .addr = *addr, .port = port };
}

bool target_equal(const struct target *a, const struct target *b)
{
	if (a->kind != b->kind || a->port != b->port)
		return false;
	return a->kind == TARGET_NAME ? dname_equal(&a->name, &b->name)
				      : addr_equal(&a->addr, &b->addr);
}

const char *target_print(const struct target *t, char *out_text)
{
	if (t->kind == TARGET_NAME) {
		snprintf(out_text, TARGET_TEXT_MAX, "%s:%u", t->name.text, (unsigned)t->port);
		return out_text;
	}
	return endpoint_print(&(struct endpoint){ t->addr, t->port }, out_text);
}

const char *target_print_host(const struct target *t, char *out_text)
{
	if (t->kind == TARGET_NAME) {
		snprintf(out_text, TARGET_TEXT_MAX, "%s", t->name.text);
		return out_text;
	}
	return addr_print(&t->addr, out_text);
}
