/* Listening, the cells and their readers; see serve_http.h. Who wakes whom; what a request means is serve_request's. Called by serve. */
#include "serve/serve_http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net/open_socket.h"
#include "serve/serve_http_internal.h"

#define BACKLOG 1024

static void on_accept(void *arg, struct listener *l, int fd, const struct endpoint *source)
{
	struct serve_http *s = arg;

	if (s->clients.count < s->options.clients_max) {
		serve_client_begin(s, fd);
		return;
	}
	log_limited(&s->complaint, LOG_LEVEL_WARN, "client_turned_away why=\"clients_max are here\"");
	close(fd);
}

struct serve_room *serve_http_room(const struct serve_http *s, const char *cell)
{
	struct list_node *node, *next;

	LIST_FOREACH(node, next, &s->rooms) {
		struct serve_room *room = CONTAINER_OF(node, struct serve_room, node);

		if (strcmp(serve_cell_name(room->cell), cell) == 0)
			return room;
	}
	return NULL;
}

static struct serve_room *room_of(const struct serve_http *s, const struct serve_cell *cell)
{
	struct list_node *node, *next;

	LIST_FOREACH(node, next, &s->rooms)
		if (CONTAINER_OF(node, struct serve_room, node)->cell == cell)
			return CONTAINER_OF(node, struct serve_room, node);
	return NULL;
}

static void wake_readers(struct serve_room *room)
{
	struct list_node *node, *next;

	LIST_FOREACH(node, next, &room->readers)
		serve_client_wake(CONTAINER_OF(node, struct serve_client, reader));
}

enum err serve_http_offer(struct serve_http *s, struct serve_cell *cell)
{
	struct serve_room *room = room_of(s, cell);

	if (room == NULL) {
		room = alloc_zeroed(sizeof(*room));
		if (room == NULL)
			return ERR_NO_MEMORY;
		room->cell = cell;
		serve_hub_init(&room->hub);
		list_init(&room->readers);
		list_push_back(&s->rooms, &room->node);
	}
	serve_hub_take_edition(&room->hub, serve_cell_edition(cell));
	wake_readers(room);
	return ERR_OK;
}

enum err serve_http_beat(struct serve_http *s, struct serve_cell *cell)
{
	struct serve_room *room = room_of(s, cell);
	uint64_t seq;
	enum err e;

	if (room == NULL)
		return ERR_NO_MEMORY;
	e = serve_hub_take_beat(&room->hub, serve_cell_beat(cell, &seq));
	wake_readers(room);
	return e;
}

enum err serve_http_renew(struct serve_http *s, const struct serve_tls_options *tls, char out_reason[SERVE_TLS_REASON_MAX])
{
	struct serve_tls *renewed;
	enum err e = serve_tls_open(tls, out_reason, &renewed);

	if (e != ERR_OK)
		return e;
	serve_tls_close(s->tls);
	s->tls = renewed;
	return ERR_OK;
}

static enum err listen_at(struct serve_http *s, const struct endpoint *at, char out_reason[SERVE_TLS_REASON_MAX])
{
	const struct listener_options options = { .name = "serve" };
	char shown[ENDPOINT_TEXT_MAX];
	int fd;
	enum err e = open_socket_tcp(at, BACKLOG, false, &fd);

	endpoint_print(at, shown);
	if (e != ERR_OK) {
		snprintf(out_reason, SERVE_TLS_REASON_MAX, "%s: %s", shown, e == ERR_SYSTEM ? strerror(errno) : err_text(e));
		return e;
	}
	e = listener_create(s->loop, s->metrics, fd, &options, on_accept, s, &s->listener);
	if (e == ERR_OK)
		return e;
	snprintf(out_reason, SERVE_TLS_REASON_MAX, "%s: %s", shown, err_text(e));
	close(fd);
	return e;
}

enum err serve_http_open(struct loop *loop, const struct serve_http_options *options, char out_reason[SERVE_TLS_REASON_MAX],
			 struct serve_http **out_server)
{
	struct serve_http *s = alloc_zeroed(sizeof(*s));
	enum err e = ERR_NO_MEMORY;

	snprintf(out_reason, SERVE_TLS_REASON_MAX, "%s", err_text(e));
	if (s == NULL)
		return e;
	s->loop = loop;
	s->options = *options;
	s->options.tls = (struct serve_tls_options){ NULL, NULL, NULL };
	s->complaint = s->notice = s->refused = (struct log_limit){ .burst = 20, .interval_ms = 60000 };
	list_init(&s->rooms);
	list_init(&s->clients);
	s->metrics = metrics_create();
	if (s->metrics != NULL)
		e = serve_tls_open(&options->tls, out_reason, &s->tls);
	if (e == ERR_OK)
		e = listen_at(s, &options->at, out_reason);
	if (e != ERR_OK) {
		serve_http_close(s);
		return e;
	}
	*out_server = s;
	return ERR_OK;
}

void serve_http_close(struct serve_http *s)
{
	struct list_node *node;

	if (s == NULL)
		return;
	listener_destroy(s->listener);
	s->listener = NULL;
	while ((node = list_first(&s->clients)) != NULL)
		serve_client_dismiss(CONTAINER_OF(node, struct serve_client, node));
	while ((node = list_pop_front(&s->rooms)) != NULL) {
		struct serve_room *room = CONTAINER_OF(node, struct serve_room, node);

		serve_hub_finish(&room->hub);
		alloc_free(room);
	}
	serve_tls_close(s->tls);
	metrics_destroy(s->metrics);
	alloc_free(s);
}
