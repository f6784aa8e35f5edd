/* Rules are printed in the one grammar, so that what a tool suggests can be pasted into a policy.
 */
#include "facts/rule.h"

#include <string.h>

#include "base/attr.h"
#include "texts.h"

struct row {
	struct rule rule;
	const char *text;
};

static void check_rows(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char text[RULE_TEXT_MAX];

		cr_expect_str_eq(rule_print(&rows[i].rule, text), rows[i].text);
	}
}

static struct rule allow(enum scheme scheme, uint16_t first, uint16_t last)
{
	return (struct rule){ .scheme_known = true,
			      .scheme = scheme,
			      .port_count = 1,
			      .ports = { { first, last } } };
}

static struct rule for_name(struct rule r, enum rule_host host)
{
	r.host = host;
	r.name = dname_in("api.example.org");
	return r;
}

static struct rule for_prefix(struct rule r, const char *prefix)
{
	r.host = RULE_HOST_PREFIX;
	r.prefix = prefix_in(prefix);
	return r;
}

Test(rule, ports_that_the_scheme_implies_are_left_out_and_only_those)
{
	struct row rows[] = {
		{ for_name(allow(SCHEME_HTTPS, 443, 443), RULE_HOST_NAME),
		  "https://api.example.org" },
		{ for_name(allow(SCHEME_HTTPS, 8443, 8443), RULE_HOST_NAME),
		  "https://api.example.org:8443" },
		{ for_name(allow(SCHEME_HTTPS, 443, 444), RULE_HOST_NAME),
		  "https://api.example.org:443-444" },
		{ for_name(allow(SCHEME_HTTPS, 400, 443), RULE_HOST_NAME),
		  "https://api.example.org:400-443" },
		{ for_name(allow(SCHEME_HTTPS, 443, 443), RULE_HOST_NAME),
		  "https://api.example.org:443,8000-8999" },
		{ for_name(allow(SCHEME_HTTP, 80, 80), RULE_HOST_WILDCARD),
		  "http://*.api.example.org" },
		{ for_name(allow(SCHEME_WS, 80, 80), RULE_HOST_NAME), "ws://api.example.org" },
		{ for_name(allow(SCHEME_WS, 443, 443), RULE_HOST_NAME),
		  "ws://api.example.org:443" },
		{ for_name(allow(SCHEME_TCP, 443, 443), RULE_HOST_NAME),
		  "tcp://api.example.org:443" },
	};

	rows[4].rule.port_count = 2;
	rows[4].rule.ports[1] = (struct rule_ports){ 8000, 8999 };
	check_rows(rows, ARRAY_LEN(rows));
}

Test(rule, addresses_and_prefixes_are_printed_as_the_grammar_has_them)
{
	const struct row rows[] = {
		{ for_prefix(allow(SCHEME_SSH, 22, 22), "192.0.2.1"), "ssh://192.0.2.1" },
		{ for_prefix(allow(SCHEME_TCP, 1, 65535), "10.20.0.0/16"),
		  "tcp://10.20.0.0/16:1-65535" },
		{ for_prefix(allow(SCHEME_TCP, 443, 444), "2001:db8::/32"),
		  "tcp://[2001:db8::/32]:443-444" },
		{ for_prefix(allow(SCHEME_TCP, 443, 443), "2001:db8::1"),
		  "tcp://[2001:db8::1]:443" },
		{ for_prefix((struct rule){ .action = RULE_DENY }, "0.0.0.0/0"), "0.0.0.0/0" },
		{ for_prefix((struct rule){ .action = RULE_DENY }, "::/0"), "[::/0]" },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

Test(rule, what_has_no_scheme_is_printed_without_one)
{
	const struct row rows[] = {
		{ for_name((struct rule){ .action = RULE_DENY }, RULE_HOST_NAME),
		  "api.example.org" },
		{ for_name((struct rule){ .action = RULE_DENY,
					  .port_count = 1,
					  .ports = { { 443, 443 } } },
			   RULE_HOST_NAME),
		  "api.example.org:443" },
		{ { .host = RULE_HOST_ANY }, "any" },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

Test(rule, the_longest_rule_fits_whole)
{
	struct rule r = { .scheme_known = true,
			  .scheme = SCHEME_HTTPS,
			  .host = RULE_HOST_WILDCARD,
			  .port_count = RULE_PORTS_MAX };
	char text[RULE_TEXT_MAX];

	memset(r.name.text, 'a', DNAME_MAX);
	for (size_t dot = 63; dot < DNAME_MAX; dot += 64)
		r.name.text[dot] = '.';
	r.name.len = DNAME_MAX;
	for (unsigned i = 0; i < RULE_PORTS_MAX; i++)
		r.ports[i] = (struct rule_ports){ (uint16_t)(30000 + 2000 * i),
						  (uint16_t)(30001 + 2000 * i) };
	rule_print(&r, text);
	cr_expect_eq(strlen(text), strlen("https://*.") + DNAME_MAX + RULE_PORTS_MAX * 12);
	cr_expect_str_eq(text + strlen(text) - 11, "60000-60001");
}
