/*
 * URL references. What leads somewhere leads to the base or to a host that stands in the reference,
 * holds no byte that readers treat differently, and is the same place once it is written out in
 * full.
 */
#include <stdio.h>
#include <strings.h>

#include "require.h"
#include "wire/url.h"

/* The plain URL of a place. */
static const char *plain(const struct url *url, char out_text[400])
{
	char address[ADDR_TEXT_MAX] = "";
	bool v6 = url->host.is_address && url->host.addr.family == ADDR_V6;

	if (url->host.is_address)
		addr_print(&url->host.addr, address);
	snprintf(out_text, 400, "%s://%s%s%s:%u/", scheme_row(url->scheme)->word, v6 ? "[" : "",
		 url->host.is_address ? address : url->host.name.text, v6 ? "]" : "",
		 url->host.port);
	return out_text;
}

static bool contains_nocase(struct text t, const char *word)
{
	size_t len = strlen(word);

	for (size_t at = 0; at + len <= t.len; at++) {
		if (strncasecmp(t.at + at, word, len) == 0)
			return true;
	}
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text reference = { (const char *)data, size };
	struct url base, url, again;
	struct url_host host;
	char text[400];

	REQUIRE(url_read(text_of("http://base.test:8080/dir/page"), &base));
	if (url_read_host(reference, 80, &host)) {
		REQUIRE(host.port != 0 && memchr(data, '@', size) == NULL &&
			memchr(data, '/', size) == NULL);
		REQUIRE(memchr(data, '%', size) == NULL && memchr(data, '\\', size) == NULL);
	}
	if (!url_resolve(reference, &base, &url))
		return 0;
	REQUIRE(url.host.port != 0);
	for (size_t i = 0; i < size; i++)
		REQUIRE(data[i] > ' ' && data[i] != 0x7f && data[i] != '\\');
	REQUIRE(url_read(text_of(plain(&url, text)), &again));
	REQUIRE(again.scheme == url.scheme && url_host_equal(&again.host, &url.host));
	if (!url_host_equal(&url.host, &base.host) || url.scheme != base.scheme) {
		REQUIRE(contains_nocase(reference, "//"));
		REQUIRE(url.host.is_address || contains_nocase(reference, url.host.name.text));
	}
	if (url_read(reference, &again))
		REQUIRE(again.scheme == url.scheme && url_host_equal(&again.host, &url.host));
	return 0;
}
