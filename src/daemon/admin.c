/*
 * Probes and metrics over HTTP on the admin socket: GET only, one request a connection, small and bounded. Never on a socket that guests
 * reach: the sidecar, which opens it, sees to that.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "metrics/exposition.h"

#define ADMIN_CONNECTIONS_MAX 32
#define ADMIN_REQUEST_MAX 4096
#define ADMIN_ANSWER_MAX (1u << 20)
#define ADMIN_DEADLINE_MS 5000
#define ADMIN_PAUSE_MS 100 /* without descriptors */

struct admin {
	struct daemon *daemon;   /* borrowed */
	int fd;                  /* owned: listening */
	struct loop_watch watch;
	struct loop_timer pause; /* started while accepting fails */
	struct list connections; /* of struct admin_connection */
};

struct admin_connection {
	struct list_node peers;
	struct admin *admin;     /* borrowed */
	int fd;                  /* owned */
	struct loop_watch readable;
	struct loop_watch *writable; /* lent while the answer waits */
	struct loop_timer deadline;
	size_t request_len;
	char request[ADMIN_REQUEST_MAX];
	struct buf answer;
};

static void connection_close(struct admin_connection *c)
{
	loop_watch_stop(&c->readable);
	loop_return_write(c->writable);
	loop_timer_cancel(&c->deadline);
	list_remove(&c->admin->connections, &c->peers);
	close(c->fd);
	buf_finish(&c->answer);
	alloc_free(c);
}

static void on_late(void *arg)
{
	connection_close(arg);
}

static void put_answer(struct admin_connection *c, const char *status, const char *type, const void *body, size_t len)
{
	char head[256];
	int n = snprintf(head, sizeof(head),
			 "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
			 status, type, len);

	if (buf_append(&c->answer, head, (size_t)n) != ERR_OK || buf_append(&c->answer, body, len) != ERR_OK)
		log_line(LOG_LEVEL_WARN, "event=admin_answer_cut");
}

static void put_text(struct admin_connection *c, const char *status, const char *text)
{
	put_answer(c, status, "text/plain; charset=utf-8", text, strlen(text));
}

static void answer_metrics(struct admin_connection *c)
{
	struct daemon *d = c->admin->daemon;
	struct metrics *blocks[WORKER_MAX + 1];
	struct buf body;
	size_t count = 0;

	buf_init(&body, ADMIN_ANSWER_MAX / 2);
	blocks[count++] = d->metrics;
	for (unsigned i = 0; i < d->shared.count; i++)
		blocks[count++] = d->shared.worker[i]->metrics;
	if (exposition_write(blocks, count, &body) != ERR_OK ||
	    buf_append(&body, buf_data(&d->sidecar_metrics), d->sidecar_metrics.len) != ERR_OK)
		put_text(c, "500 Internal Server Error", "out of memory\n");
	else
		put_answer(c, "200 OK", "text/plain; version=0.0.4; charset=utf-8", buf_data(&body), body.len);
	buf_finish(&body);
}

static void answer_probe(struct admin_connection *c, bool good, const char *yes, const char *no)
{
	put_text(c, good ? "200 OK" : "503 Service Unavailable", good ? yes : no);
}

static bool starts_with(const struct admin_connection *c, const char *what)
{
	size_t len = strlen(what);

	return c->request_len >= len && memcmp(c->request, what, len) == 0;
}

static void answer(struct admin_connection *c)
{
	struct daemon *d = c->admin->daemon;

	if (!starts_with(c, "GET "))
		put_text(c, "405 Method Not Allowed", "only GET is served\n");
	else if (starts_with(c, "GET /livez ") || starts_with(c, "GET /healthz "))
		answer_probe(c, daemon_is_alive(d), "ok\n", "a worker's loop does not turn\n");
	else if (starts_with(c, "GET /readyz "))
		answer_probe(c, daemon_is_ready(d), "ok\n", "control is not live or a worker has not adopted the snapshot\n");
	else if (starts_with(c, "GET /startupz "))
		answer_probe(c, d->adopted_version != 0, "ok\n", "no snapshot was adopted yet\n");
	else if (starts_with(c, "GET /metrics "))
		answer_metrics(c);
	else
		put_text(c, "404 Not Found", "livez, readyz, startupz and metrics are here\n");
}

static void on_writable(void *arg, int fd, unsigned what)
{
	struct admin_connection *c = arg;
	ssize_t sent = send(fd, buf_data(&c->answer), c->answer.len, MSG_NOSIGNAL);

	if (sent < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (sent > 0)
		buf_consume(&c->answer, (size_t)sent);
	if (sent <= 0 || c->answer.len == 0)
		connection_close(c);
}

static void on_readable(void *arg, int fd, unsigned what)
{
	struct admin_connection *c = arg;
	ssize_t got = recv(fd, c->request + c->request_len, sizeof(c->request) - 1 - c->request_len, 0);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		connection_close(c);
		return;
	}
	c->request_len += (size_t)got;
	c->request[c->request_len] = '\0';
	if (strstr(c->request, "\r\n\r\n") == NULL && c->request_len < sizeof(c->request) - 1)
		return;
	loop_watch_stop(&c->readable);
	answer(c);
	c->writable = loop_lend_write(c->admin->daemon->loop, fd, on_writable, c);
	if (c->writable == NULL)
		connection_close(c);
}

static void take(struct admin *a, int fd)
{
	struct loop *loop = a->daemon->loop;
	struct admin_connection *c = a->connections.count >= ADMIN_CONNECTIONS_MAX ? NULL : alloc_zeroed(sizeof(*c));

	if (c == NULL) {
		close(fd);
		return;
	}
	c->admin = a;
	c->fd = fd;
	buf_init(&c->answer, ADMIN_ANSWER_MAX);
	list_push_back(&a->connections, &c->peers);
	loop_watch_init(&c->readable, loop, fd, LOOP_READ, on_readable, c);
	loop_timer_init(&c->deadline, loop, on_late, c);
	if (loop_watch_start(&c->readable) != ERR_OK || loop_timer_start(&c->deadline, ADMIN_DEADLINE_MS) != ERR_OK)
		connection_close(c);
}

static void on_pause_over(void *arg)
{
	struct admin *a = arg;

	if (loop_watch_start(&a->watch) != ERR_OK && loop_timer_start(&a->pause, ADMIN_PAUSE_MS) != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "event=admin_deaf why=\"out of memory\"");
}

static void on_connect(void *arg, int fd, unsigned what)
{
	struct admin *a = arg;
	int got = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (got >= 0) {
		take(a, got);
		return;
	}
	if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
		return;
	/* Who waits would call again at once: without a descriptor that is a loop that only turns. */
	if (loop_timer_start(&a->pause, ADMIN_PAUSE_MS) == ERR_OK)
		loop_watch_stop(&a->watch);
}

enum err admin_create(struct daemon *d, int fd, struct admin **out_admin)
{
	struct admin *a = alloc_zeroed(sizeof(*a));

	if (a == NULL)
		return ERR_NO_MEMORY;
	a->daemon = d;
	a->fd = fd;
	list_init(&a->connections);
	loop_timer_init(&a->pause, d->loop, on_pause_over, a);
	loop_watch_init(&a->watch, d->loop, fd, LOOP_READ, on_connect, a);
	if (loop_watch_start(&a->watch) != ERR_OK) {
		alloc_free(a);
		return ERR_NO_MEMORY;
	}
	*out_admin = a;
	return ERR_OK;
}

void admin_destroy(struct admin *a)
{
	struct list_node *n;

	if (a == NULL)
		return;
	while ((n = list_first(&a->connections)) != NULL)
		connection_close(CONTAINER_OF(n, struct admin_connection, peers));
	loop_watch_stop(&a->watch);
	loop_timer_cancel(&a->pause);
	close(a->fd);
	alloc_free(a);
}
