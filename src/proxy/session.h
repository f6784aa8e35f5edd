/*
 * One request's life. session.c holds the state table and the only ways to change state or end; handshake.c, establish.c and
 * tunnel.c tell the story in reading order. A session belongs to one worker at a time and moves at most once.
 */
#ifndef EGRESS_PROXY_SESSION_H
#define EGRESS_PROXY_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/list.h"
#include "decision/record.h"
#include "decision/verdict.h"
#include "facts/target.h"
#include "judge/judge.h"
#include "lease/lease_table.h"
#include "net/loop.h"
#include "net/relay.h"

struct worker;
struct lease_home;
struct handshake;
struct establish;
struct tunnel;

/* symbol, word, metric of open connections, reason when the deadline passes */
#define SESSION_STATES(X)                                                 \
	X(GREETING, "greeting", OPEN_HANDSHAKE, HANDSHAKE_TIMEOUT)        \
	X(CREDENTIALS, "credentials", OPEN_HANDSHAKE, HANDSHAKE_TIMEOUT)  \
	X(DELAYED, "delayed", OPEN_HANDSHAKE, AUTH_FAILED)                \
	X(REQUEST, "request", OPEN_HANDSHAKE, HANDSHAKE_TIMEOUT)          \
	X(MOVING, "moving", OPEN_HANDSHAKE, INTERNAL)                     \
	X(RESOLVING, "resolving", OPEN_RESOLVING, DNS_TIMEOUT)            \
	X(CONNECTING, "connecting", OPEN_CONNECTING, UPSTREAM_TIMEOUT)    \
	X(FIRST_FLIGHT, "first_flight", OPEN_RELAYING, FIRST_FLIGHT_TIMEOUT) \
	X(RELAYING, "relaying", OPEN_RELAYING, LIFETIME)                  \
	X(ENDING, "ending", OPEN_CLOSING, ALLOWED)                        \
	X(CLOSED, "closed", OPEN_CLOSING, ALLOWED)

#define SESSION_STATES_AS_ENUM(sym, word, metric, reason) SESSION_##sym,
enum session_state { SESSION_STATES(SESSION_STATES_AS_ENUM) SESSION_STATE_COUNT };
#undef SESSION_STATES_AS_ENUM

#define SESSION_ENDING_MS 3000 /* how long last words may take (RFC 1928 section 6: at most 10 s) */

struct session {
	struct list_node in_state;  /* in the worker's list of this state */
	struct list_node in_home;   /* in its lease's home, once it has one */
	struct worker *worker;      /* borrowed: whose thread it lives on */
	struct lease_home *home;    /* borrowed; NULL before the lease is known and home */
	enum session_state state;
	bool was_open;              /* success was sent: its end is a close or a cut, not a decision */
	bool is_counted_unfinished; /* limits_handshake_begin holds for it */
	int guest_fd, origin_fd;    /* owned; -1 */
	uint64_t deadline_ms;       /* loop time; UINT64_MAX: none */
	uint64_t accepted_ms, opened_ms; /* loop time */

	struct handshake *handshake; /* owned: until the tunnel opens or the session closes */
	struct establish *establish; /* owned: while resolving and connecting */
	struct relay *relay;         /* owned: from success on */
	struct tunnel *tunnel;       /* owned: while a typed flow is judged */

	/* The story so far, for records and for judging again. */
	char id[RECORD_ID_LEN + 1];
	char listener[RECORD_WORD_MAX + 1];
	char tag[RECORD_TAG_MAX + 1];
	struct endpoint source;      /* family NONE for unix sockets */
	uint32_t source_cell;        /* in the shared limits */
	uint32_t slot, generation;   /* of the lease, once home */
	struct target target;        /* valid once target_known */
	bool target_known;
	bool nat64_dropped;
	bool pin_failed;             /* its pinned addresses failed and were asked for again */
	struct verdict verdict;      /* of REQUEST, later of STREAM */
	struct judge_stream seen;    /* what the stream showed; judged again when policy changes */
	struct endpoint upstream;    /* dialled; family NONE before */
	struct addr refused_addr;    /* family NONE: none */
	enum addr_class addr_class;
	enum facts_phase phase;
	uint32_t judge_us, dns_ms, connect_ms;
	uint64_t held_bytes;         /* counted against the worker's hold_bytes */
	bool is_incomplete;          /* a flight or head has begun and is not complete */
	uint64_t incomplete_by_ms;   /* … and must be by then (loop time) */
	struct loop_message mail;    /* while MOVING */
};

const char *session_state_word(enum session_state s);

/* A guest arrived on this worker. Takes over `fd`. */
void session_accept(struct worker *w, int fd, const char *listener, const struct endpoint *source);
/* The only writer of s->state: list, metrics and deadline move together. `after_ms` UINT64_MAX: no deadline. */
void session_enter(struct session *s, enum session_state next, uint64_t after_ms);
/* As session_enter, keeping the deadline: one absolute deadline for the whole handshake. */
void session_keep_deadline(struct session *s, enum session_state next);
/* Refuse before success: the client hears it as the reason's row says, the record says why, then the end is brief. */
void session_refuse(struct session *s, enum reason why);
/* As session_refuse with a reply code of one's own (connect failures tell 03 from 04). */
void session_refuse_with(struct session *s, enum reason why, uint8_t socks_reply);
/* End an open tunnel in order: record of a close, then both sides are closed. */
void session_finish(struct session *s, enum reason why);
/* As session_finish, but what was said to the guest reaches it: stop sending, read away what comes for a moment, then close. */
void session_finish_heard(struct session *s, enum reason why);
/* Give everything behind the guest back; its socket stays for last words. */
void session_release_tunnel(struct session *s);
/* The handshake is complete: it stops counting as unfinished. */
void session_end_handshake(struct session *s);
/* Close without a record: what there was to say has been said. */
void session_end_silent(struct session *s);
/* Close at once in any phase because lease, policy or control changed: resets both sides, records a cut or a refusal. */
void session_cut(struct session *s, enum reason why);
/* Its deadline passed. */
void session_on_deadline(struct session *s);

/* Fill a record with what the session knows. */
void session_fill_record(const struct session *s, enum record_event event, enum reason why, struct record *out_record);
/* Emit the decision that opened or refused it. */
void session_record_decision(struct session *s, enum reason why);

/* What judgement stands on right now, for this session. */
struct judge session_judge(const struct session *s);
/* Gate and lease in force now? ALLOWED or why not. */
enum reason session_check_lease(const struct session *s);
/* Judge a live session again under the world in force; ALLOWED (the verdict is the new one), or the reason to cut it. */
enum reason session_judge_again(struct session *s);

/* Steps of the story; each is called by the one before. */
void handshake_start(struct session *s);  /* handshake.c */
void establish_start(struct session *s);  /* establish.c */
/* tunnel.c; `local` is our end of the connection to the origin. */
void tunnel_start(struct session *s, const struct endpoint *local);

/* handshake.c, for the others. */
/* The session is on its home worker now: go on with the request. */
void handshake_arrive_home(void *session);
/* The delay of a failed login is over: say so and end. */
void handshake_delay_over(struct session *s);
/* Free what only the handshake needed. */
void handshake_release(struct session *s);
/* Send one reply in one write; a guest that takes no 22 bytes on a fresh socket is closed by the deadline. */
void handshake_send_reply(struct session *s, const uint8_t *bytes, size_t len);
/* Shut down sending and read away what still comes; false when there is nothing to wait for. */
bool handshake_linger(struct session *s) ATTR_MUST_CHECK;
/* What the guest sent behind its request: the first bytes of its stream. Borrowed until handshake_release. */
void handshake_surplus(const struct session *s, const uint8_t **out_bytes, size_t *out_len);
/* The name it asked for when that was none, escaped. */
void handshake_raw_name(const struct session *s, char *out_text, size_t cap);

/* establish.c, for the others. */
void establish_release(struct session *s);
/* Does every address that it would dial still pass, `request` being allowed? ALLOWED, or why not: one that fails refuses the whole set. */
enum reason establish_judge_again(const struct session *s, const struct verdict *request);
/* Why resolving took too long: what is known so far. */
enum reason establish_deadline_reason(const struct session *s);

/* tunnel.c, for the others. */
/* Add what only the tunnel knows. */
void tunnel_fill_record(const struct session *s, struct record *record);
void tunnel_release(struct session *s);
/* Was it refused, or did it come to an end, so that nothing more will pass? */
bool tunnel_is_ending(const struct session *s);
void tunnel_on_deadline(struct session *s);
/* Look at limits that have no deadline of their own: silence, bytes. */
void tunnel_scan(struct session *s, uint64_t now_ms);

#endif
