/* The scripted server; see web.h. */
#include "web.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_whole(const char *request, size_t len)
{
	const char *end = strstr(request, "\r\n\r\n");
	const char *length = strcasestr(request, "\r\nContent-Length:");
	size_t body = length == NULL ? 0 : (size_t)strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);

	return end != NULL && len >= (size_t)(end - request) + 4 + body;
}

static void read_request(int fd, char *out_request)
{
	size_t len = 0;
	ssize_t n;

	while (!is_whole(out_request, len) && len < WEB_REQUEST_MAX - 1) {
		n = read(fd, out_request + len, WEB_REQUEST_MAX - 1 - len);
		if (n <= 0)
			return;
		len += (size_t)n;
		out_request[len] = '\0';
	}
}

static void write_answer(int fd, const struct web_answer *answer)
{
	size_t len = strlen(answer->bytes), piece = answer->piece == 0 ? len : answer->piece;

	for (size_t at = 0; at < len; at += piece) {
		size_t part = len - at < piece ? len - at : piece;

		if (send(fd, answer->bytes + at, part, MSG_NOSIGNAL) != (ssize_t)part)
			return;
	}
}

static void *serve(void *arg)
{
	struct web *w = arg;
	char byte;

	for (size_t i = 0; i < w->count; i++) {
		int fd = accept(w->listener, NULL, NULL), on = 1;

		if (fd < 0)
			break;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		read_request(fd, w->requests[i]);
		w->asked = i + 1;
		if (w->answers[i].bytes != NULL)
			write_answer(fd, &w->answers[i]);
		if (w->answers[i].stays_open)
			while (read(fd, &byte, 1) > 0)
				continue;
		close(fd);
	}
	return NULL;
}

void web_open(struct web *w, const struct web_answer *answers, size_t count)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(at);

	memset(w, 0, sizeof(*w));
	cr_assert_leq(count, WEB_ANSWERS_MAX);
	memcpy(w->answers, answers, count * sizeof(*answers));
	w->count = count;
	w->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(w->listener, (struct sockaddr *)&at, len), 0);
	cr_assert_eq(listen(w->listener, 8), 0);
	cr_assert_eq(getsockname(w->listener, (struct sockaddr *)&at, &len), 0);
	snprintf(w->url, sizeof(w->url), "http://127.0.0.1:%u", ntohs(at.sin_port));
	cr_assert_eq(pthread_create(&w->thread, NULL, serve, w), 0);
}

void web_close(struct web *w)
{
	/* Who still waits for a connection is told that there will be none. */
	shutdown(w->listener, SHUT_RDWR);
	cr_assert_eq(pthread_join(w->thread, NULL), 0);
	close(w->listener);
}
