#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/pattern.h"

static const struct {
	enum rule_action action;
	const char *written, *printed;
} good[] = {
	{ RULE_ALLOW, "https://api.example.org", "https://api.example.org" },
	{ RULE_ALLOW, "https://API.Example.ORG.", "https://api.example.org" },
	{ RULE_ALLOW, "https://api.example.org:443", "https://api.example.org" },
	{ RULE_ALLOW, "https://api.example.org:8443", "https://api.example.org:8443" },
	{ RULE_ALLOW, "http://a.example:80,8080", "http://a.example:80,8080" },
	{ RULE_ALLOW, "http://a.example:8080,80", "http://a.example:80,8080" },
	{ RULE_ALLOW, "http://a.example:1-3,4-6", "http://a.example:1-6" },
	{ RULE_ALLOW, "http://a.example:4-6,1-3", "http://a.example:1-6" },
	{ RULE_ALLOW, "http://a.example:1-3,2-9,20,4-6", "http://a.example:1-9,20" },
	{ RULE_ALLOW, "http://a.example:65535,1-65534", "http://a.example:1-65535" },
	{ RULE_ALLOW, "ws://a.example", "ws://a.example" },
	{ RULE_ALLOW, "ssh://git.example", "ssh://git.example" },
	{ RULE_ALLOW, "tcp://db.example.org:5432", "tcp://db.example.org:5432" },
	{ RULE_ALLOW, "https://*.example.org", "https://*.example.org" },
	{ RULE_ALLOW, "https://_dmarc.under_score.example", "https://_dmarc.under_score.example" },
	{ RULE_ALLOW, "https://xn--bcher-kva.test", "https://xn--bcher-kva.test" },
	{ RULE_ALLOW, "https://b\xc3\xbc" "cher.test", "https://xn--bcher-kva.test" },
	{ RULE_ALLOW, "https://*.b\xc3\xbc" "cher.example", "https://*.xn--bcher-kva.example" },
	{ RULE_ALLOW, "tcp://192.0.2.1:1", "tcp://192.0.2.1:1" },
	{ RULE_ALLOW, "tcp://192.0.2.0/24:1-2", "tcp://192.0.2.0/24:1-2" },
	{ RULE_ALLOW, "tcp://192.0.2.1/32:1", "tcp://192.0.2.1:1" },
	{ RULE_ALLOW, "ssh://192.0.2.1", "ssh://192.0.2.1" },
	{ RULE_ALLOW, "http://[2001:DB8:0:0::1]", "http://[2001:db8::1]" },
	{ RULE_ALLOW, "tcp://[2001:db8::/32]:443-444", "tcp://[2001:db8::/32]:443-444" },
	{ RULE_ALLOW, "tcp://[2001:db8::1/128]:443", "tcp://[2001:db8::1]:443" },
	{ RULE_ALLOW, "https://localhost", "https://localhost" },
	{ RULE_DENY, "stats.example.org", "stats.example.org" },
	{ RULE_DENY, "*.example.org", "*.example.org" },
	{ RULE_DENY, "stats.example.org:443", "stats.example.org:443" },
	{ RULE_DENY, "10.0.0.0/8", "10.0.0.0/8" },
	{ RULE_DENY, "0.0.0.0/0", "0.0.0.0/0" },
	{ RULE_DENY, "192.0.2.1:80", "192.0.2.1:80" },
	{ RULE_DENY, "[fd00::/8]", "[fd00::/8]" },
	{ RULE_DENY, "[fd00::1]:22", "[fd00::1]:22" },
};

static enum err parse(const char *text, enum rule_action action, struct rule *rule, struct pattern_fault *fault)
{
	return pattern_parse(text_of(text), action, PATTERN_UNICODE_TOO, rule, fault);
}

Test(pattern, good_rules_print_canonically_and_read_back_the_same)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct pattern_fault fault = { .reason = "" };
		char printed[RULE_TEXT_MAX], again[RULE_TEXT_MAX];
		struct rule rule;

		cr_assert_eq(parse(good[i].written, good[i].action, &rule, &fault), ERR_OK, "%s: %s", good[i].written,
			     fault.reason);
		cr_assert_eq(rule.action, good[i].action);
		rule_print(&rule, printed);
		cr_assert_str_eq(printed, good[i].printed);
		cr_assert_eq(parse(printed, good[i].action, &rule, &fault), ERR_OK, "%s", printed);
		cr_assert_str_eq(rule_print(&rule, again), printed);
	}
}

static const struct {
	enum rule_action action;
	const char *written, *code;
	uint32_t at, len;
} bad[] = {
	{ RULE_ALLOW, "", "empty", 0, 0 },
	{ RULE_ALLOW, "api.example.org", "scheme_missing", 0, 15 },
	{ RULE_ALLOW, "ftp://a.example", "scheme_unknown", 0, 3 },
	{ RULE_ALLOW, "HTTPS://a.example", "scheme_unknown", 0, 5 },
	{ RULE_ALLOW, "://a.example", "scheme_unknown", 0, 0 },
	{ RULE_ALLOW, "https://", "host_missing", 8, 0 },
	{ RULE_ALLOW, "https://:443", "host_missing", 8, 0 },
	{ RULE_ALLOW, "https://*", "host_star", 8, 1 },
	{ RULE_ALLOW, "https://*.", "host_star", 8, 2 },
	{ RULE_ALLOW, "https://*:443", "host_star", 8, 1 },
	{ RULE_ALLOW, "https://a.*.example", "host_star", 8, 11 },
	{ RULE_ALLOW, "https://*a.example", "host_star", 8, 10 },
	{ RULE_ALLOW, "https://*.*.example", "host_invalid", 8, 11 },
	{ RULE_ALLOW, "https://*.com", "public_suffix", 8, 5 },
	{ RULE_ALLOW, "https://*.test", "public_suffix", 8, 6 },
	{ RULE_ALLOW, "https://*.co.uk", "public_suffix", 8, 7 },
	{ RULE_ALLOW, "https://*.github.io", "public_suffix", 8, 11 },
	{ RULE_DENY, "*.com", "public_suffix", 0, 5 },
	{ RULE_ALLOW, "https://a..example", "host_invalid", 8, 10 },
	{ RULE_ALLOW, "https://.a.example", "host_invalid", 8, 10 },
	{ RULE_ALLOW, "https://a.example..", "host_invalid", 8, 11 },
	{ RULE_ALLOW, "https://a%2e.example", "host_invalid", 8, 12 },
	{ RULE_ALLOW, "https://a\\.example", "host_invalid", 8, 10 },
	{ RULE_ALLOW, "https://user@a.example", "user_info", 8, 14 },
	{ RULE_ALLOW, "https://user:pw@a.example", "user_info", 8, 17 },
	{ RULE_ALLOW, "https://a.example/", "path", 17, 1 },
	{ RULE_ALLOW, "https://a.example/simple", "path", 17, 7 },
	{ RULE_ALLOW, "https://a.example:443/simple", "path", 21, 7 },
	{ RULE_ALLOW, "https://a.example/24", "path", 17, 3 },
	{ RULE_ALLOW, "https://a.example?x", "host_invalid", 8, 11 },
	{ RULE_ALLOW, "https://a.example:", "port_invalid", 18, 0 },
	{ RULE_ALLOW, "https://a.example:0", "port_invalid", 18, 1 },
	{ RULE_ALLOW, "https://a.example:65536", "port_invalid", 18, 5 },
	{ RULE_ALLOW, "https://a.example:0443", "port_invalid", 18, 4 },
	{ RULE_ALLOW, "https://a.example:2-1", "port_invalid", 18, 3 },
	{ RULE_ALLOW, "https://a.example:1-", "port_invalid", 18, 2 },
	{ RULE_ALLOW, "https://a.example:1,", "port_invalid", 20, 0 },
	{ RULE_ALLOW, "https://a.example:1,,2", "port_invalid", 20, 0 },
	{ RULE_ALLOW, "https://a.example:+1", "port_invalid", 18, 2 },
	{ RULE_ALLOW, "https://a.example:*", "port_invalid", 18, 1 },
	{ RULE_ALLOW, "https://a.example:https", "port_invalid", 18, 5 },
	{ RULE_ALLOW, "tcp://a.example:1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33", "port_invalid", 59, 2 },
	{ RULE_ALLOW, "tcp://a.example", "port_missing", 6, 9 },
	{ RULE_ALLOW, "tcp://192.0.2.1", "port_missing", 6, 9 },
	{ RULE_ALLOW, "https://192.0.2.1", "address_scheme", 8, 9 },
	{ RULE_ALLOW, "https://[2001:db8::1]", "address_scheme", 8, 13 },
	{ RULE_ALLOW, "ws://192.0.2.1", "address_scheme", 5, 9 },
	{ RULE_ALLOW, "tcp://127.1:80", "host_invalid", 6, 5 },
	{ RULE_ALLOW, "tcp://0x7f.1:80", "host_invalid", 6, 6 },
	{ RULE_ALLOW, "tcp://010.0.0.1:80", "host_invalid", 6, 9 },
	{ RULE_ALLOW, "tcp://2130706433:80", "host_invalid", 6, 10 },
	{ RULE_ALLOW, "https://a.example.1", "host_invalid", 8, 11 },
	{ RULE_ALLOW, "tcp://10.0.0.1/8:80", "address_invalid", 6, 10 },
	{ RULE_ALLOW, "tcp://10.0.0.0/33:80", "address_invalid", 6, 11 },
	{ RULE_ALLOW, "tcp://2001:db8::1", "address_invalid", 6, 11 },
	{ RULE_ALLOW, "tcp://[2001:db8::1", "address_invalid", 6, 12 },
	{ RULE_ALLOW, "tcp://[]:80", "address_invalid", 6, 2 },
	{ RULE_ALLOW, "tcp://[192.0.2.1]:80", "address_invalid", 6, 11 },
	{ RULE_ALLOW, "tcp://[2001:db8::1%eth0]:80", "address_invalid", 6, 18 },
	{ RULE_ALLOW, "tcp://[2001:db8::1/32]:80", "address_invalid", 6, 16 },
	{ RULE_ALLOW, "tcp://[2001:db8::]/32:80", "path", 18, 6 },
	{ RULE_ALLOW, "tcp://[2001:db8::]80", "port_invalid", 18, 2 },
	{ RULE_ALLOW, "https://a b.example", "blank", 9, 1 },
	{ RULE_ALLOW, "https://a.example\n", "blank", 17, 1 },
	{ RULE_ALLOW, "https://B\xc3\xbc" "cher.example", "host_unicode", 8, 15 },
	{ RULE_ALLOW, "https://a\xef\xbc\x8e" "example", "host_unicode", 8, 11 },
	{ RULE_ALLOW, "https://a\xe3\x80\x82" "example", "host_unicode", 8, 11 },
	{ RULE_ALLOW, "https://\xe2\x84\xaa.example", "host_unicode", 8, 11 },
	{ RULE_ALLOW, "https://\xff.example", "host_unicode", 8, 9 },
	{ RULE_DENY, "https://a.example", "scheme_unknown", 0, 17 },
	{ RULE_DENY, "a.example/x", "path", 9, 2 },
	{ RULE_DENY, "*", "host_star", 0, 1 },
};

Test(pattern, bad_rules_are_refused_where_they_are_wrong)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct pattern_fault fault = { .code = "none" };
		struct rule rule, before;

		memset(&rule, 0x5a, sizeof(rule));
		before = rule;
		cr_assert_eq(parse(bad[i].written, bad[i].action, &rule, &fault), ERR_INVALID, "%s", bad[i].written);
		cr_assert_str_eq(fault.code, bad[i].code, "%s: %s: %s", bad[i].written, fault.code, fault.reason);
		cr_assert_eq(fault.at, bad[i].at, "%s: at %u", bad[i].written, fault.at);
		cr_assert_eq(fault.len, bad[i].len, "%s: len %u", bad[i].written, fault.len);
		cr_assert_gt(strlen(fault.reason), 10);
		cr_assert_eq(memcmp(&rule, &before, sizeof(rule)), 0);
	}
}

Test(pattern, a_suffix_where_names_are_rented_is_told_as_one)
{
	struct pattern_fault fault;
	struct rule rule;

	cr_assert_eq(parse("https://*.github.io", RULE_ALLOW, &rule, &fault), ERR_INVALID);
	cr_assert_not_null(strstr(fault.reason, "rent"));
	cr_assert_eq(parse("https://*.co.uk", RULE_ALLOW, &rule, &fault), ERR_INVALID);
	cr_assert_null(strstr(fault.reason, "rent"));
}

Test(pattern, documents_hold_no_u_labels)
{
	struct pattern_fault fault;
	struct rule rule;

	cr_assert_eq(pattern_parse(text_of("https://b\xc3\xbc" "cher.example"), RULE_ALLOW, PATTERN_ASCII_ONLY, &rule, &fault),
		     ERR_INVALID);
	cr_assert_str_eq(fault.code, "host_unicode");
}

Test(pattern, names_fit_to_the_last_byte_and_no_further)
{
	char text[400] = "https://";
	struct pattern_fault fault;
	struct rule rule;

	for (int i = 0; i < 3; i++) {
		memset(text + strlen(text), 'a' + i, 63);
		strcat(text, ".");
	}
	memset(text + strlen(text), 'z', 61);
	cr_assert_eq(strlen(text) - 8, DNAME_MAX);
	cr_assert_eq(parse(text, RULE_ALLOW, &rule, &fault), ERR_OK);
	strcat(text, "z");
	cr_assert_eq(parse(text, RULE_ALLOW, &rule, &fault), ERR_INVALID);
	cr_assert_str_eq(fault.code, "host_invalid");
	memset(text, 'a', sizeof(text));
	memcpy(text, "https://", 8);
	cr_assert_eq(pattern_parse((struct text){ text, 8 + 64 }, RULE_ALLOW, PATTERN_ASCII_ONLY, &rule, &fault), ERR_INVALID);
}

Test(pattern, too_long_a_text_refuses_before_it_is_read)
{
	char text[RULE_TEXT_MAX + 1];
	struct pattern_fault fault;
	struct rule rule;

	memset(text, 'a', sizeof(text));
	cr_assert_eq(pattern_parse((struct text){ text, sizeof(text) }, RULE_DENY, PATTERN_ASCII_ONLY, &rule, &fault), ERR_INVALID);
	cr_assert_str_eq(fault.code, "too_long");
}

Test(pattern, every_prefix_of_a_rule_reads_inside_its_bytes)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		for (size_t len = 0; len <= strlen(good[i].written); len++) {
			char *exact = alloc_copy(good[i].written, len);
			struct pattern_fault fault;
			struct text t = { exact, len };
			struct rule rule;

			cr_assert_neq(pattern_parse(t, good[i].action, PATTERN_UNICODE_TOO, &rule, &fault), ERR_NO_MEMORY);
			cr_assert_neq(pattern_parse_host(t, PATTERN_ASCII_ONLY, &rule, &fault), ERR_NO_MEMORY);
			cr_assert_neq(pattern_parse_target(t, &rule, &fault), ERR_NO_MEMORY);
			alloc_free(exact);
		}
	}
}

Test(pattern, hosts_alone_have_no_scheme_and_no_port)
{
	static const struct {
		const char *text;
		enum err err;
		enum rule_host host;
	} rows[] = {
		{ "registry.corp.example", ERR_OK, RULE_HOST_NAME }, { "*.corp.example", ERR_OK, RULE_HOST_WILDCARD },
		{ "10.0.0.0/8", ERR_OK, RULE_HOST_PREFIX },	     { "[fd00::1]", ERR_OK, RULE_HOST_PREFIX },
		{ "a.example:80", ERR_INVALID, 0 },		     { "https://a.example", ERR_INVALID, 0 },
		{ "", ERR_INVALID, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pattern_fault fault;
		struct rule rule;

		cr_assert_eq(pattern_parse_host(text_of(rows[i].text), PATTERN_UNICODE_TOO, &rule, &fault), rows[i].err, "%s",
			     rows[i].text);
		if (rows[i].err == ERR_OK)
			cr_assert_eq(rule.host, rows[i].host);
	}
}

Test(pattern, targets_are_one_host_and_one_port_and_may_be_urls)
{
	static const struct {
		const char *text, *printed;
	} rows[] = {
		{ "https://a.example", "https://a.example" },
		{ "https://a.example/path?q#f", "https://a.example" },
		{ "https://a.example:8443?q", "https://a.example:8443" },
		{ "tcp://192.0.2.1:22", "tcp://192.0.2.1:22" },
		{ "ssh://[2001:db8::1]", "ssh://[2001:db8::1]" },
		{ "tcp://192.0.2.0/24:22", NULL },
		{ "https://*.a.example", NULL },
		{ "https://a.example:1,3", NULL },
		{ "https://a.example:1-3", NULL },
		{ "https://u@a.example/", NULL },
		{ "a.example", NULL },
		{ "/", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pattern_fault fault;
		struct rule rule;
		char text[RULE_TEXT_MAX];
		enum err err = pattern_parse_target(text_of(rows[i].text), &rule, &fault);

		cr_assert_eq(err == ERR_OK, rows[i].printed != NULL, "%s", rows[i].text);
		if (err == ERR_OK)
			cr_assert_str_eq(rule_print(&rule, text), rows[i].printed);
	}
}

Test(pattern, the_public_suffix_list_is_at_hand)
{
	static const struct {
		const char *name;
		bool is_public, is_shared;
	} rows[] = {
		{ "com", true, false },	      { "co.uk", true, false },	     { "github.io", true, true },
		{ "example.com", false, false }, { "xn--p1ai", true, false },   { "kawasaki.jp", true, false },
		{ "city.kawasaki.jp", false, false }, { "nosuchtld", true, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct dname name;

		cr_assert_eq(dname_parse(text_of(rows[i].name), DNAME_FINAL_DOT_DROP, &name), DNAME_OK);
		cr_assert_eq(pattern_is_public_suffix(&name), rows[i].is_public, "%s", rows[i].name);
		cr_assert_eq(pattern_is_shared_suffix(&name), rows[i].is_shared, "%s", rows[i].name);
	}
}
