/*
 * Requests to an etcd cluster's JSON gateway: which member next, with which token, over which TLS. Shared by who reads the store
 * (driver_etcd) and who writes it (serve_etcd). Knows no key and no document.
 */
#ifndef EGRESS_STORE_ETCD_CLIENT_H
#define EGRESS_STORE_ETCD_CLIENT_H

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "net/loop.h"
#include "store/endpoints.h"
#include "store/etcd_line.h"
#include "store/frames.h"
#include "store/http.h"

#define ETCD_CLIENT_TOKEN_MAX 4224
#define ETCD_CLIENT_CONNECT_MS 3000
#define ETCD_CLIENT_PASSWORD_MAX 512

/* Borrowed for the call, all of it. */
struct etcd_client_options {
	const char *members;     /* "host:port,host:port": https where tls names anything, else http */
	const char *user;        /* NULL or "": without authentication */
	const char *password;    /* kept until finish */
	struct http_options tls;
};

struct etcd_client {
	struct endpoints endpoints;
	struct http *http;                 /* owned */
	char *user, *password;             /* owned; NULL without authentication */
	char token[ETCD_CLIENT_TOKEN_MAX]; /* the header; "" without one */
};

/* INVALID: a member, or half of a certificate or login that cannot be used. Finish it also on failure. */
enum err etcd_client_init(struct etcd_client *c, struct loop *loop, const struct etcd_client_options *options) ATTR_MUST_CHECK;
/* All requests must have ended. */
void etcd_client_finish(struct etcd_client *c);

/* The first thing to do when this is so; the answer goes to etcd_client_take_token. */
bool etcd_client_needs_token(const struct etcd_client *c);
enum err etcd_client_login(struct etcd_client *c, const struct http_events *events, void *arg, struct http_request **out_request)
	ATTR_MUST_CHECK;
/* INVALID: no token in it. */
enum err etcd_client_take_token(struct etcd_client *c, struct text body) ATTR_MUST_CHECK;
/* It is not taken any more. */
void etcd_client_drop_token(struct etcd_client *c);

/* total_ms 0: an endless answer. */
enum err etcd_client_post(struct etcd_client *c, const char *path, struct text body, unsigned total_ms, const struct http_events *events,
			  void *arg, struct http_request **out_request) ATTR_MUST_CHECK;
/* Why a request did not end as it should; not for TOO_LONG. */
enum frames_break etcd_client_break(const struct http_outcome *outcome);
enum frames_break etcd_client_break_of(enum etcd_refusal refusal, enum frames_break otherwise);

/* The first line of a file; the caller wipes it. INVALID when empty or too long, SYSTEM. */
enum err etcd_client_read_password(const char *path, char out_text[ETCD_CLIENT_PASSWORD_MAX + 1]) ATTR_MUST_CHECK;

#endif
