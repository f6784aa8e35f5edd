/* Our own reading of references, for comparison with others': one in hexadecimal on each line of standard input, "scheme host port" or "-" out. */
#include <stdio.h>
#include <string.h>

#include "wire/url.h"

#define BASE "http://a.test/d/x"
#define LINE_MAX 4096

static int digit(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

static void print_host(const struct url_host *host)
{
	char text[ADDR_TEXT_MAX];

	if (!host->is_address)
		printf("%s", host->name.text);
	else
		printf("%s", addr_print(&host->addr, text));
}

int main(void)
{
	struct url base, url;
	char line[LINE_MAX], bytes[LINE_MAX / 2];

	if (!url_read(text_of(BASE), &base))
		return 1;
	while (fgets(line, sizeof(line), stdin) != NULL) {
		struct text reference = { bytes, strcspn(line, "\n") / 2 };

		for (size_t i = 0; i < reference.len; i++)
			bytes[i] = (char)(digit(line[2 * i]) << 4 | digit(line[2 * i + 1]));
		if (!url_resolve(reference, &base, &url)) {
			puts("-");
			continue;
		}
		printf("%s ", scheme_row(url.scheme)->word);
		print_host(&url.host);
		printf(" %u\n", (unsigned)url.host.port);
	}
	return 0;
}
