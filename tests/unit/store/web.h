/* A server for the tests of what asks over HTTP: answers the nth connection with the nth script, on a thread of its own. */
#ifndef EGRESS_TESTS_UNIT_STORE_WEB_H
#define EGRESS_TESTS_UNIT_STORE_WEB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define WEB_ANSWERS_MAX 32
#define WEB_REQUEST_MAX 8192

struct web_answer {
	const char *bytes; /* the whole answer; NULL: hang up without one */
	size_t piece;      /* written in pieces of so many bytes; 0: at once */
	bool stays_open;   /* until the client hangs up */
};

struct web {
	int listener;
	char url[64];
	struct web_answer answers[WEB_ANSWERS_MAX];
	size_t count;
	char requests[WEB_ANSWERS_MAX][WEB_REQUEST_MAX];
	_Atomic size_t asked; /* requests that were read whole */
	pthread_t thread;
};

void web_open(struct web *w, const struct web_answer *answers, size_t count);
/* All clients must have hung up. */
void web_close(struct web *w);

/* An answer of 200 with this body, which ends with the connection. */
#define WEB_OK(body) "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" body

#endif
