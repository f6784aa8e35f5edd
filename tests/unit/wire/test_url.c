/* URLs lead to one authority for every reader, or nowhere. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "hex.h"
#include "wire/url.h"

/* "scheme host port", or NULL where it is refused. */
static const char *show(bool ok, const struct url *url)
{
	static char text[400];
	char address[ADDR_TEXT_MAX];

	if (!ok)
		return "refused";
	snprintf(text, sizeof(text), "%s %s %u", scheme_row(url->scheme)->word,
		 url->host.is_address ? addr_print(&url->host.addr, address) : url->host.name.text,
		 url->host.port);
	return text;
}

static void assert_resolves(const char *reference, const char *want)
{
	struct url base, url;
	size_t len = strlen(reference);
	char *block = (char *)exact_copy(reference, len);

	cr_assert(url_read(text_of("http://plain.test:8080/dir/page"), &base));
	cr_assert_str_eq(show(url_resolve((struct text){ block, len }, &base, &url), &url), want,
			 "%s", reference);
	free(block);
}

Test(url, absolute_urls_lead_to_their_own_authority)
{
	static const char *const rows[][2] = {
		{ "http://evil.test/", "http evil.test 80" },
		{ "HTTP://Evil.TEST", "http evil.test 80" },
		{ "https://evil.test", "https evil.test 443" },
		{ "https://evil.test:8443/x?y#z", "https evil.test 8443" },
		{ "http://evil.test.", "http evil.test 80" },
		{ "http://192.0.2.1/", "http 192.0.2.1 80" },
		{ "http://[2001:DB8::1]:81/", "http 2001:db8::1 81" },
		{ "http://[::ffff:10.0.0.1]/", "http ::ffff:10.0.0.1 80" },
		{ "http://evil.test?q", "http evil.test 80" },
		{ "http://evil.test#f", "http evil.test 80" },
		{ "http://evil.test/@plain.test/", "http evil.test 80" },
		{ "http://evil.test/a:b@c", "http evil.test 80" },
		{ "http://evil.test//x", "http evil.test 80" },
		{ "http://evil.test/./\xc3\xa9", "http evil.test 80" },
		{ "ws://evil.test/", "ws evil.test 80" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_resolves(rows[i][0], rows[i][1]);
}

Test(url, relative_references_stay_where_they_are)
{
	static const char *const rows[] = {
		"",
		"/",
		"/next",
		"next",
		"next/page",
		"?q=1",
		"#f",
		".",
		"..",
		"./x",
		"../x",
		"/../x",
		"...",
		"/a//b",
		"a//b",
		"/x?u=http://evil.test/",
		"/x#//evil.test",
		"?//evil.test",
		"/x:y",
		"./x:y",
		"/a@b",
		"/%2f%2fevil.test",
		"/\xc3\xa9",
		"/x?./y//z",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_resolves(rows[i], "http plain.test 8080");
}

Test(url, a_reference_with_two_slashes_keeps_the_scheme_alone)
{
	assert_resolves("//evil.test/x", "http evil.test 80");
	assert_resolves("//evil.test:81", "http evil.test 81");
	assert_resolves("//plain.test/", "http plain.test 80");
}

static const char *const ambiguous[] = {
	/* C241 */
	"/\\evil.test/",
	"\\\\evil.test/",
	"http:\\\\evil.test/",
	"\\/evil.test",
	"/x\\y",
	"?\\",
	"http:/\\evil.test/",
	/* C242 */
	"http://plain.test@evil.test/",
	"http://plain.test\\@evil.test/",
	"http://evil.test#@plain.test/",
	"http://plain.test:80@evil.test/",
	"http://evil.test?@plain.test",
	"//u:p@evil.test/",
	"http://@evil.test/",
	"http://evil.test@",
	/* slashes that browsers add or drop */
	"http:evil.test",
	"http:/evil.test",
	"http:///evil.test/",
	"///evil.test",
	"//",
	"///",
	"http://",
	"http:",
	"https:/",
	"http://?x",
	"http://#x",
	"http://:80/",
	/* white space and control characters, which browsers drop or trim */
	" http://evil.test/",
	"http://evil.test/ ",
	"ht\ttp://evil.test/",
	"/\n/evil.test",
	"/\t/evil.test",
	"//evil.test\r",
	"/a b",
	"\x01//evil.test",
	"/\x7f",
	/* hosts */
	"http://ev%69l.test/",
	"http://evil_test:x/",
	"http://evil..test/",
	"http://.evil.test/",
	"http://ev il.test/",
	"http://127.1/",
	"http://0x7f.1/",
	"http://2130706433/",
	"http://0177.0.0.1/",
	"http://1.2.3.4./",
	"http://1.2.3.4.5/",
	"http://::1/",
	"http://[::1/",
	"http://[1.2.3.4]/",
	"http://[fe80::1%25eth0]/",
	"http://[fe80::1%eth0]/",
	"http://[::1]x/",
	"http://[]/",
	"http://]/",
	"http://x]/",
	"http://[evil.test]/",
	"http://\xef\xbd\x85vil.test/",
	"http://evil\xe3\x80\x82test/",
	"http://evil.test,plain.test/",
	"http://evil.test;x/",
	"http://*.test/",
	"http://ev\"il.test/",
	"http://-\xff/",
	/* ports */
	"http://evil.test:/",
	"http://evil.test:0/",
	"http://evil.test:080/",
	"http://evil.test:+80/",
	"http://evil.test:80x/",
	"http://evil.test:65536/",
	"http://evil.test:8 0/",
	"http://evil.test:-1/",
	"http://evil.test:80:80/",
	"http://evil.test:18446744073709551696/",
	"http://[::1]:/",
	"http://evil.test:%38%30/",
	/* schemes */
	"ftp://evil.test/",
	"javascript:alert(1)",
	"data:text/html,x",
	"evil.test:80",
	"evil.test:80/x",
	"x:",
	"a:b",
	"wss://evil.test/",
	"httpss://evil.test/",
	"view-source:http://evil.test/",
	"tcp://evil.test/",
	":x",
	"1http://evil.test/",
	"a%3a:b",
	"1:2",
	"-a:b",
	/* dots that uncover two slashes */
	"/.//",
	"/.//evil.test/",
	".//evil.test/",
	"/..//evil.test",
	"..//evil.test",
	"/%2e//evil.test",
	"/%2E%2e//evil.test",
	"/././/evil.test",
	"/x/..//evil.test",
	"x/..//evil.test",
	"x//../../y",
};

Test(url, what_two_readers_could_take_for_two_authorities_is_refused)
{
	for (size_t i = 0; i < ARRAY_LEN(ambiguous); i++)
		assert_resolves(ambiguous[i], "refused");
}

Test(url, nul_is_never_part_of_a_url)
{
	static const char *const rows[] = { "http://evil.test0plain.test/", "http://evil.test/0x",
					    "/0/x" };
	struct url base, url;

	cr_assert(url_read(text_of("http://plain.test/"), &base));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char copy[64];
		size_t len = strlen(rows[i]);

		memcpy(copy, rows[i], len);
		*strchr(copy, '0') = '\0';
		cr_assert(!url_resolve((struct text){ copy, len }, &base, &url));
		cr_assert(!url_read((struct text){ copy, len }, &url));
	}
}

Test(url, relative_references_are_no_urls)
{
	static const char *const rows[] = { "", "/", "//evil.test/", "evil.test", "?x", "#x" };
	struct url url;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		cr_assert(!url_read(text_of(rows[i]), &url), "%s", rows[i]);
}

Test(url, tcp_has_a_port_or_is_refused)
{
	struct url url;

	cr_assert_str_eq(show(url_read(text_of("tcp://db.test:5432"), &url), &url),
			 "tcp db.test 5432");
	cr_assert_str_eq(show(url_read(text_of("ssh://git.test"), &url), &url), "ssh git.test 22");
	cr_assert(!url_read(text_of("tcp://db.test"), &url));
}

Test(url, hosts_are_read_with_a_default_port_or_without)
{
	static const struct {
		const char *text;
		uint16_t port; /* 0: refused */
		uint16_t port_without_default;
	} rows[] = {
		{ "plain.test", 80, 0 },
		{ "plain.test:80", 80, 80 },
		{ "plain.test:8080", 8080, 8080 },
		{ "plain.test:", 0, 0 },
		{ "plain.test:080", 0, 0 },
		{ "plain.test:0", 0, 0 },
		{ "plain.test:65535", 65535, 65535 },
		{ "[::1]", 80, 0 },
		{ "[::1]:1", 1, 1 },
		{ "1.2.3.4", 80, 0 },
		{ "1.2.3.4:5", 5, 5 },
		{ "", 0, 0 },
		{ ":80", 0, 0 },
		{ "a b", 0, 0 },
		{ "u@plain.test", 0, 0 },
		{ "plain.test/", 0, 0 },
		{ "http://plain.test", 0, 0 },
		{ "plain.test, plain.test", 0, 0 },
		{ "[", 0, 0 },
		{ "[]", 0, 0 },
		{ "[::1]80", 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct url_host host;
		size_t len = strlen(rows[i].text);
		char *block = (char *)exact_copy(rows[i].text, len);
		struct text t = { block, len };

		host.port = 0;
		cr_assert_eq(url_read_host(t, 80, &host), rows[i].port != 0, "%s", rows[i].text);
		cr_assert_eq(host.port, rows[i].port);
		host.port = 0;
		cr_assert_eq(url_read_host(t, 0, &host), rows[i].port_without_default != 0, "%s",
			     rows[i].text);
		cr_assert_eq(host.port, rows[i].port_without_default);
		free(block);
	}
}

Test(url, hosts_are_equal_when_kind_value_and_port_are)
{
	static const char *const distinct[] = { "a.test:1",  "b.test:1",	  "a.test:2",
						"1.2.3.4:1", "1.2.3.4:2",	  "1.2.3.5:1",
						"[::1]:1",   "[::ffff:1.2.3.4]:1" };

	for (size_t i = 0; i < ARRAY_LEN(distinct); i++) {
		for (size_t j = 0; j < ARRAY_LEN(distinct); j++) {
			struct url_host a, b;

			cr_assert(url_read_host(text_of(distinct[i]), 0, &a));
			cr_assert(url_read_host(text_of(distinct[j]), 0, &b));
			cr_assert_eq(url_host_equal(&a, &b), i == j);
		}
	}
}

Test(url, every_prefix_of_a_url_is_read_in_bounds)
{
	static const char whole[] = "http://[2001:db8::1]:8080/a/../b//c?d#e";
	struct url base, url;

	cr_assert(url_read(text_of(whole), &base));
	for (size_t n = 0; n < sizeof(whole); n++) {
		char *block = (char *)exact_copy(whole, n);
		bool ok = url_read((struct text){ block, n }, &url);

		/* whole brackets, and then no half port */
		cr_assert_eq(ok, n >= 20 && n != 21, "%zu", n);
		cr_assert_eq(url_resolve((struct text){ block, n }, &base, &url), ok || n < 5,
			     "%zu", n);
		free(block);
	}
}
