/* Reads resolv.conf(5), of which only "nameserver" matters to a proxy that asks whole names. Called by the sidecar. */
#include "sidecar/name_servers.h"

#include <fcntl.h>
#include <unistd.h>

#define PATH "/etc/resolv.conf"
#define FILE_MAX 65536
#define DNS_PORT 53

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct text word_of(struct text *line)
{
	struct text word;

	while (line->len > 0 && is_blank(*line->at)) {
		line->at++;
		line->len--;
	}
	word = (struct text){ line->at, 0 };
	while (line->len > 0 && !is_blank(*line->at)) {
		line->at++;
		line->len--;
		word.len++;
	}
	return word;
}

size_t name_servers_parse(struct text text, struct endpoint out_servers[NAME_SERVERS_MAX])
{
	size_t count = 0;

	while (text.len > 0 && count < NAME_SERVERS_MAX) {
		struct text line = { text.at, 0 };
		struct endpoint server = { .port = DNS_PORT };

		while (line.len < text.len && text.at[line.len] != '\n')
			line.len++;
		text.at += line.len;
		text.len -= line.len;
		if (text.len > 0) {
			text.at++;
			text.len--;
		}
		if (text_is(word_of(&line), "nameserver") && addr_parse(word_of(&line), &server.addr))
			out_servers[count++] = server;
	}
	return count;
}

size_t name_servers_read(struct endpoint out_servers[NAME_SERVERS_MAX])
{
	static char bytes[FILE_MAX];
	int fd = open(PATH, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, bytes, sizeof(bytes));
	close(fd);
	return n <= 0 ? 0 : name_servers_parse((struct text){ bytes, (size_t)n }, out_servers);
}
