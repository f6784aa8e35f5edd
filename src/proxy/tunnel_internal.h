/* What the files of the tunnel share: its stages, and how each of them refuses. Only for tunnel.c and tunnel_*.c. */
#ifndef EGRESS_PROXY_TUNNEL_INTERNAL_H
#define EGRESS_PROXY_TUNNEL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/relay.h"
#include "proxy/session.h"
#include "wire/http1.h"
#include "wire/http1_body.h"

#define TUNNEL_HOLD_MAX 65536      /* bytes that a filter may hold of one way */
#define TUNNEL_PIPELINE_MAX 32     /* requests without an answer; the guest waits beyond it */

enum tunnel_stage {
	TUNNEL_FIRST_FLIGHT, /* nothing passes until the guest's first bytes are judged */
	TUNNEL_TLS_ANSWER,   /* the hello passed; the server's first record says whether a second one follows */
	TUNNEL_TLS_SECOND,   /* a second hello is awaited and judged like the first */
	TUNNEL_HTTP,         /* every head of both ways is judged */
	TUNNEL_OPAQUE,       /* all passes */
	TUNNEL_ENDING,       /* nothing more passes; last words, if any, wait for what passed before them */
};

/* A request that passed and has no complete answer yet. */
struct tunnel_asked {
	enum http1_method method;
	bool upgrade, websocket; /* what it offered */
	bool awaits_continue;    /* Expect: 100-continue, and no 100 has passed yet */
};

/* One HTTP/1 connection, both ways. */
struct tunnel_http {
	struct http1_scan up_scan, down_scan;
	struct http1_body up_body, down_body; /* of the message under way; done between messages */
	bool up_in_body, down_in_body;
	bool down_is_last;       /* the answer under way ends the connection */
	bool up_waits;           /* the guest's way stands still until an answer is complete */
	bool up_closed;          /* … for good: whether a body or a request comes next is anybody's guess */
	uint8_t first, count;    /* ring of requests without an answer */
	struct tunnel_asked asked[TUNNEL_PIPELINE_MAX];
};

/* What a typed tunnel remembers until it is opaque. */
struct tunnel {
	enum tunnel_stage stage;
	enum reason why;         /* recorded, and what the guest will hear; ALLOWED while nothing was refused */
	uint64_t ending_since_ms; /* loop time */
	bool is_mute;            /* ENDING: the guest is in the middle of something else and hears nothing */
	size_t held[RELAY_WAYS]; /* bytes that the filters keep back */
	size_t hello_len;        /* TLS: bytes of the first flight that are judged and not passed yet */
	struct tunnel_http http;
	char redirect_to[TARGET_TEXT_MAX]; /* redirect that was refused, escaped; "" if none */
};

/* tunnel.c */
/* Refuse: recorded at once, said once what passed before is sent (not at all when `mute`), then the end. Also from inside a filter. */
struct relay_filter_answer tunnel_refuse(struct session *s, enum reason why, bool mute);
/* Record a refusal, the first one only, whose words may have to wait for earlier answers; tunnel_refuse ends it. */
void tunnel_note_refusal(struct session *s, enum reason why);
/* Nothing was refused, but nothing more may follow what has passed: end in order. */
struct relay_filter_answer tunnel_end(struct session *s);
/* Judge what `s->seen` holds as phase STREAM; ALLOWED or why not. */
enum reason tunnel_judge_seen(struct session *s);
/* The first flight was judged: the session relays from now on. */
void tunnel_open(struct session *s, enum tunnel_stage stage);
/* Start (or end) the deadline of an incomplete flight or head; between messages only idleness counts. */
void tunnel_expect(struct session *s, bool incomplete);

/* tunnel_words.c */
/* Say why in the words of the protocol that the guest speaks, as far as anything told which one that is. */
void tunnel_say_why(struct session *s, enum reason why);

/* tunnel_tls.c */
/* Read bytes as the guest's first TLS flight. OK: `s->seen` and *out_len are filled; BAD: *out_why says it. */
enum parsed tunnel_read_tls(struct session *s, const uint8_t *bytes, size_t len, size_t *out_len, enum reason *out_why);
struct relay_filter_answer tunnel_tls_up(struct session *s, const uint8_t *bytes, size_t len, bool end);
struct relay_filter_answer tunnel_tls_down(struct session *s, const uint8_t *bytes, size_t len, bool end);

/* tunnel_http.c */
struct relay_filter_answer tunnel_http_up(struct session *s, const uint8_t *bytes, size_t len, bool end);
struct relay_filter_answer tunnel_http_down(struct session *s, const uint8_t *bytes, size_t len, bool end);
/* Refuse a request. What was asked before it is answered first, so that the guest can tell which one is meant. */
struct relay_filter_answer tunnel_http_refuse(struct session *s, enum reason why);

#endif
