/*
 * HTTP requests on the loop: whole answers or lines of an endless one, over TLS that is verified, never through a proxy of the environment,
 * never following a redirect. The only includer of libcurl. Knows no document and no store.
 */
#ifndef EGRESS_STORE_HTTP_H
#define EGRESS_STORE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "net/loop.h"

#define HTTP_HEADERS_MAX 8

struct http;

/* Paths, copied; NULL or "": not set. */
struct http_options {
	const char *ca;          /* file with the authorities that count; unset: the system's */
	const char *certificate; /* ours, for mutual TLS */
	const char *key;         /* its private key */
};

/* One for all requests of a source. INVALID: a certificate without its key or the reverse. */
enum err http_create(struct loop *loop, const struct http_options *options, struct http **out_http) ATTR_MUST_CHECK;
/* All requests must have ended or been cancelled. Not from a callback. Accepts NULL. */
void http_destroy(struct http *h);

/* How a request ended. */
enum http_end {
	HTTP_END_ANSWERED, /* status and body as they came, whatever the status */
	HTTP_END_FAILED,   /* not connected, certificate refused, or broken off */
	HTTP_END_TIMEOUT,
	HTTP_END_TOO_LONG, /* line or body beyond its limit */
};

struct http_outcome {
	enum http_end end;
	unsigned status;   /* 0: no answer began */
	struct text body;  /* borrowed for the call; without on_line, or of a status that is not 2xx (then cut) */
	const char *error; /* for people; "" when answered */
};

struct http_events {
	/* A line of a 2xx answer, without its end; NULL: the body is gathered for on_done. May cancel the request, may not start one. */
	void (*on_line)(void *arg, struct text line);
	/* Once, last, and never from http_start; the request is gone. May start the next one. */
	void (*on_done)(void *arg, const struct http_outcome *outcome);
};

struct http_request_options {
	const char *url;                       /* http: or https:; copied */
	const char *headers[HTTP_HEADERS_MAX]; /* "Name: value", up to the first NULL; copied */
	struct text body;                      /* POST when at is not NULL, else GET; copied */
	size_t line_max, body_max;             /* bytes */
	unsigned connect_ms;
	unsigned total_ms;                     /* 0: endless */
	unsigned silence_s;                    /* no byte for so long: TIMEOUT; 0: never */
};

struct http_request;

enum err http_start(struct http *h, const struct http_request_options *options, const struct http_events *events, void *arg,
		    struct http_request **out_request) ATTR_MUST_CHECK;
/* The status of the answer that has begun; 0 before. */
unsigned http_status(const struct http_request *r);
/* No event comes after it. Accepts NULL. */
void http_cancel(struct http_request *r);

#endif
