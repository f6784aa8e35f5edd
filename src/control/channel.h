/*
 * One end of a control connection on a loop: whole messages in and out over a SEQPACKET unix socket, peer credentials checked, at most
 * one descriptor with a message, a bounded queue out. Frames by wire/ctl_msg; knows no command.
 */
#ifndef EGRESS_CONTROL_CHANNEL_H
#define EGRESS_CONTROL_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "net/loop.h"
#include "wire/ctl_msg.h"

struct channel;

struct channel_peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

/* A message arrived. `fd` is the receiver's (or -1); text in `msg` is borrowed for the call. May close the channel. */
typedef void channel_message_fn(void *arg, struct channel *c, const struct ctl_msg *msg, int fd);
/* The other side is gone or broke the protocol; nothing comes after it. The owner calls channel_close. */
typedef void channel_closed_fn(void *arg, struct channel *c, enum err why);

/*
 * Bind and listen on `path` (owner-only directory is the caller's affair; mode 0660). The caller owns *out_fd. A socket file that
 * nobody listens on is removed first; EXISTS when somebody does or when it is no socket, INVALID for a path that does not fit.
 */
enum err channel_listen(const char *path, int *out_fd) ATTR_MUST_CHECK;
/* Accept one connection; AGAIN when there is none. The caller owns *out_fd. */
enum err channel_accept(int listen_fd, int *out_fd) ATTR_MUST_CHECK;
/*
 * Connect to `path` (one of the few connect(2) outside net/connector). Blocking, at most `wait_ms`. NOT_FOUND without such a file,
 * CLOSED when nobody listens, DENIED, AGAIN when it took too long, else INVALID or SYSTEM.
 */
enum err channel_dial(const char *path, unsigned wait_ms, int *out_fd) ATTR_MUST_CHECK;
/* Take over a connected descriptor on `loop` (its own also on failure, then closed). `from` are the sides the peer may speak as; others' messages end the channel. */
enum err channel_open(struct loop *loop, int fd, unsigned from, size_t queue_max, channel_message_fn *on_message,
		      channel_closed_fn *on_closed, void *arg, struct channel **out_channel) ATTR_MUST_CHECK;
/* Accepts NULL. No callback comes after it; what is queued is lost. */
void channel_close(struct channel *c);
/* Narrow what the peer may speak as, once it said who it is. */
void channel_restrict(struct channel *c, unsigned from);
const struct channel_peer *channel_peer(const struct channel *c);
/*
 * Send or queue a message; `fd` (-1: none) is duplicated when it has to wait. LIMIT when the peer reads too slowly: the caller decides.
 * Messages of at most 1 KiB may use a reserve of 16 KiB beyond queue_max, so that the end of an answer still fits. CLOSED once the
 * channel broke (on_closed follows from the loop), INVALID for what the codec refuses.
 */
enum err channel_send(struct channel *c, const struct ctl_msg *msg, int fd) ATTR_MUST_CHECK;
/* The queue ran empty: there is room again. From the loop; may close the channel. */
typedef void channel_drained_fn(void *arg, struct channel *c);
/* Say so from now on (with the channel's `arg`), each time after messages had to wait. NULL: do not. */
void channel_tell_drained(struct channel *c, channel_drained_fn *on_drained);
/* Bytes waiting to be sent. */
size_t channel_queued(const struct channel *c);

#endif
