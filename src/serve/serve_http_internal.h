/* The server's structs, shared by serve_http.c (listening, cells), serve_client.c (one connection) and serve_request.c (what it asks). */
#ifndef EGRESS_SERVE_SERVE_HTTP_INTERNAL_H
#define EGRESS_SERVE_SERVE_HTTP_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "metrics/metrics.h"
#include "net/listener.h"
#include "serve/serve_feed.h"
#include "serve/serve_http.h"
#include "serve/serve_target.h"
#include "wire/http1.h"

#define SERVE_HEAD_MAX 16384              /* bytes of a request's head */
#define SERVE_FILL_BYTES (128u << 10)     /* lines that wait for a reader at one time, and one more */
#define SERVE_BODIES_MAX (64u << 20)      /* bytes of all bodies that are read at one time */
#define SERVE_OUT_MAX (SERVE_FILL_BYTES + SERVE_FEED_LINE_MAX + 4096)

/* One cell and who reads it. */
struct serve_room {
	struct list_node node;
	struct serve_cell *cell; /* borrowed */
	struct serve_hub hub;
	struct list readers;     /* of struct serve_client by `reader` */
};

struct serve_http {
	struct loop *loop;          /* borrowed */
	struct serve_http_options options; /* texts of tls not kept */
	struct metrics *metrics;    /* owned; the listener's */
	struct listener *listener;  /* owned */
	struct serve_tls *tls;      /* owned */
	struct list rooms, clients; /* owned */
	size_t body_bytes;          /* of bodies that are being read */
	struct log_limit complaint, notice, refused; /* refused: what strangers make us say holds back nothing about others */
};

enum serve_client_state {
	SERVE_CLIENT_HEAD,   /* reads a request; the handshake too */
	SERVE_CLIENT_BODY,   /* reads its body */
	SERVE_CLIENT_ANSWER, /* writes the rest of an answer */
	SERVE_CLIENT_STREAM, /* writes what there is, for ever */
	SERVE_CLIENT_POLL,   /* waits for something to write, once */
};

struct serve_client {
	struct list_node node, reader;
	struct serve_http *server;    /* borrowed */
	int fd;                       /* owned */
	struct serve_tls_link *link;  /* owned */
	struct loop_watch readable;
	struct loop_watch *writable;  /* lent while the socket is full */
	struct loop_timer deadline, wait;
	struct buf in, out;
	struct http1_scan scan;
	enum serve_client_state state;
	bool is_last;                 /* the connection ends with the answer */
	bool is_poll_over;            /* it may not wait any longer */
	struct serve_target target;   /* of the request that is being answered */
	char key[SERVE_TARGET_KEY_MAX + 1];
	size_t body_len;              /* 0: none is being read */
	struct serve_feed feed;       /* of STREAM and POLL */
	uint64_t beats_before;        /* of POLL: told when it began */
};

/* Takes over `fd`, also on failure. */
void serve_client_begin(struct serve_http *s, int fd);
/* Something came that it may want. It may be gone afterwards. */
void serve_client_wake(struct serve_client *c);
void serve_client_close(struct serve_client *c);
/* Say that we go, if that does not wait, and close. */
void serve_client_dismiss(struct serve_client *c);

/* The head at the front of c->in was read: answer, or go on with a body or a stream. */
void serve_request_begin(struct serve_client *c, const struct http1_request *request);
/* The whole body is at the front of c->in. */
void serve_request_body(struct serve_client *c);
/* What is not even a request: 400, 431. Ends the connection. */
void serve_request_refuse(struct serve_client *c, bool is_too_long);

struct serve_room *serve_http_room(const struct serve_http *s, const char *cell);

#endif
