/*
 * c-ares as transport only: our own query bytes out, raw answers back. Idle channels come from a pool made before the sandbox,
 * one lookup each (fresh port, exact cancel); our own socket functions drop misfits so that the query keeps waiting, and are
 * the fuzzer's door. Only includer of <ares.h>. Never calls back before the starting call returned.
 */
#ifndef EGRESS_NET_ARES_LINK_H
#define EGRESS_NET_ARES_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/err.h"
#include "net/loop.h"
#include "wire/dns_query.h"

struct ares_link;       /* one per loop */
struct ares_link_query; /* one question to one server */

/* What came of one question to one server. */
enum ares_link_status {
	ARES_LINK_ANSWER,  /* raw bytes that fit the query; FORMERR reads as SERVFAIL */
	ARES_LINK_TIMEOUT,
	ARES_LINK_FAILED,  /* no route, refused, connection lost, library trouble */
};

/* `answer` is borrowed for the call. `case_echoed`: the question came back in the very letters that were sent. */
typedef void ares_link_done_fn(void *arg, enum ares_link_status status, const uint8_t *answer, size_t len,
			       bool case_echoed);

/* System calls of the transport; NULL members mean the real ones. The fuzz and scenario harnesses give invented descriptors. */
struct ares_link_sockets {
	int (*open)(void *arg, int domain, int type, int protocol);
	int (*close)(void *arg, int fd);
	int (*connect)(void *arg, int fd, const struct sockaddr *to, socklen_t len);
	ssize_t (*recv)(void *arg, int fd, void *bytes, size_t len, int flags, struct sockaddr *from, socklen_t *from_len);
	ssize_t (*send)(void *arg, int fd, const struct iovec *parts, int count);
	void *arg;
};

struct ares_link_options {
	unsigned channels;    /* made at once, 74 kB each; beyond them queries wait (AGAIN). 0: 32 */
	unsigned misfits_max; /* dropped datagrams per query before it fails; 0: 64 */
	const struct ares_link_sockets *sockets; /* NULL: real ones; borrowed for the link's life */
};

/*
 * Make all channels: call before the sandbox (each opens the random device once; our own ids do not depend on it) and, the first
 * time, before there are threads. Reads no file else and no environment.
 */
enum err ares_link_create(struct loop *loop, const struct ares_link_options *options,
			  struct ares_link **out_link) ATTR_MUST_CHECK;
/* All queries must be done or cancelled. */
void ares_link_destroy(struct ares_link *l);
/* May a query start now (a channel is idle)? */
bool ares_link_has_room(const struct ares_link *l);
#define ARES_LINK_TIMEOUT_MAX_MS 30000
/*
 * Ask `server`, waiting at most `timeout_ms` (cut to ARES_LINK_TIMEOUT_MAX_MS) over UDP and, if truncated, TCP together. `query` is
 * borrowed until done. `require_case`: an answer whose question has other letter case is a misfit. AGAIN when no channel is idle.
 */
enum err ares_link_ask(struct ares_link *l, const struct endpoint *server, const struct dns_query *query,
		       uint64_t timeout_ms, bool require_case, ares_link_done_fn *on_done, void *arg,
		       struct ares_link_query **out_query) ATTR_MUST_CHECK;
/* Forget a query; on_done does not come. Accepts NULL. Once on_done has been called the query is gone. */
void ares_link_cancel(struct ares_link_query *q);
/* Datagrams and TCP answers dropped so far because they fit no query of ours. */
uint64_t ares_link_misfit_count(const struct ares_link *l);
unsigned ares_link_busy_count(const struct ares_link *l);
unsigned ares_link_channel_count(const struct ares_link *l);

#endif
