/* Rules are printed in the one grammar, so that what a tool suggests can be pasted into a policy.
 */
#include "facts/rule.h"

#include <string.h>

#include "base/attr.h"
#include "texts.h"

Test(rule, is_printed_as_the_grammar_has_it)
{
	struct dname name = dname_in("api.example.org");
	const struct {
		struct rule rule;
		const char *text;
	} rows[] = {
		{ { .scheme_known = true,
		    .scheme = SCHEME_HTTPS,
		    .host = RULE_HOST_NAME,
		    .name = name,
		    .port_count = 1,
		    .ports = { { 443, 443 } } },
		  "https://api.example.org" },
		{ { .scheme_known = true,
		    .scheme = SCHEME_HTTPS,
		    .host = RULE_HOST_NAME,
		    .name = name,
		    .port_count = 1,
		    .ports = { { 8443, 8443 } } },
		  "https://api.example.org:8443" },
		{ { .scheme_known = true,
		    .scheme = SCHEME_HTTPS,
		    .host = RULE_HOST_NAME,
		    .name = name,
		    .port_count = 1,
		    .ports = { { 443, 444 } } },
		  "https://api.example.org:443-444" },
		{ { .scheme_known = true,
		    .scheme = SCHEME_HTTPS,
		    .host = RULE_HOST_NAME,
		    .name = name,
		    .port_count = 1,
		    .ports = { { 400, 443 } } },
		  "https://api.example.org:400-443" },
		{ { .scheme_known = true,
		    .scheme = SCHEME_HTTPS,
		    .host = RULE_HOST_NAME,
		    .name = name,
		    .port_count = 2,
		    .ports = { { 443, 443 }, { 8000, 8999 } } },
		  "https://api.example.org:443,8000-8999" },
		{ { .scheme_known = true,
		    .scheme = SCHEME_HTTP,
		    .host = RULE_HOST_WILDCARD,
		    .name = name,
		    .port_count = 1,
		    .ports = { { 80, 80 } } },
		  "http://*.api.example.org" },
		{ { .scheme_known = true,
		    .scheme = SCHEME_WS,
		    .host = RULE_HOST_NAME,
		    .name = name,
		    .port_count = 1,
		    .ports = { { 443, 443 } } },
		  "ws://api.example.org:443" },
		{ { .scheme_known = true,
		    .scheme = SCHEME_SSH,
		    .host = RULE_HOST_PREFIX,
		    .prefix = prefix_in("192.0.2.1"),
		    .port_count = 1,
		    .ports = { { 22, 22 } } },
		  "ssh://192.0.2.1" },
		{ { .scheme_known = true,
		    .scheme = SCHEME_TCP,
		    .host = RULE_HOST_PREFIX,
		    .prefix = prefix_in("10.20.0.0/16"),
		    .port_count = 1,
		    .ports = { { 1, 65535 } } },
		  "tcp://10.20.0.0/16:1-65535" },
		{ { .scheme_known = true,
		    .scheme = SCHEME_TCP,
		    .host = RULE_HOST_PREFIX,
		    .prefix = prefix_in("2001:db8::/32"),
		    .port_count = 1,
		    .ports = { { 443, 444 } } },
		  "tcp://[2001:db8::/32]:443-444" },
		{ { .scheme_known = true,
		    .scheme = SCHEME_TCP,
		    .host = RULE_HOST_PREFIX,
		    .prefix = prefix_in("2001:db8::1"),
		    .port_count = 1,
		    .ports = { { 443, 443 } } },
		  "tcp://[2001:db8::1]:443" },
		{ { .action = RULE_DENY, .host = RULE_HOST_NAME, .name = name },
		  "api.example.org" },
		{ { .action = RULE_DENY,
		    .host = RULE_HOST_NAME,
		    .name = name,
		    .port_count = 1,
		    .ports = { { 443, 443 } } },
		  "api.example.org:443" },
		{ { .action = RULE_DENY,
		    .host = RULE_HOST_PREFIX,
		    .prefix = prefix_in("0.0.0.0/0") },
		  "0.0.0.0/0" },
		{ { .host = RULE_HOST_ANY }, "any" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[RULE_TEXT_MAX];

		cr_expect_str_eq(rule_print(&rows[i].rule, text), rows[i].text);
	}
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
