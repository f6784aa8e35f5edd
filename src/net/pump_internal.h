/*
 * Moving bytes of one way of a relay: what is in flight, and the two ways to move it behind one table. For net/relay.c only.
 * A flow keeps nothing while nothing is unsent.
 */
#ifndef EGRESS_NET_PUMP_INTERNAL_H
#define EGRESS_NET_PUMP_INTERNAL_H

#include <stdbool.h>

#include "base/buf.h"
#include "net/pump.h"

#define PUMP_UNSENT_MAX (16u << 20) /* a last bound; the relay keeps far below it */

struct pump_pipe {
	struct pump_pipe *next; /* owned: the next free one */
	int read_fd, write_fd;  /* owned */
	size_t len;             /* bytes in it */
};

/* What was read and not yet accepted by the other side; bytes in the pipe are older than those in the buffer. */
struct pump_flow {
	struct pump_pipe *pipe; /* lent by the worker while bytes are in it */
	struct buf *unsent;     /* owned; NULL while empty */
};

enum pump_status {
	PUMP_OK,            /* everything that was read is accepted */
	PUMP_WAIT,          /* there is nothing to read now */
	PUMP_BLOCKED,       /* the other side takes no more now; the flow keeps the rest */
	PUMP_END,           /* the sender has finished */
	PUMP_UNFIT,         /* these descriptors or this moment need the other way; nothing was read */
	PUMP_SOURCE_FAILED, /* errno */
	PUMP_SINK_FAILED,   /* errno */
	PUMP_NO_MEMORY,
};

struct pump_moved {
	size_t read; /* bytes taken from the source */
	size_t sent; /* bytes accepted by the sink, of these and older ones */
};

struct pump_ops {
	/* Read at most `max` bytes and send them; only for a flow that keeps nothing. */
	enum pump_status (*move)(struct pump_worker *w, struct pump_flow *f, int from_fd, int to_fd,
				 size_t max, struct pump_moved *out_moved);
	/* Send what this way keeps. */
	enum pump_status (*flush)(struct pump_worker *w, struct pump_flow *f, int to_fd, size_t *out_sent);
};

extern const struct pump_ops pump_copy;
extern const struct pump_ops pump_splice;

static inline bool pump_flow_is_empty(const struct pump_flow *f)
{
	return f->pipe == NULL && f->unsent == NULL;
}
/* Send all that is kept, oldest first: OK, BLOCKED or SINK_FAILED. */
enum pump_status pump_flush(struct pump_worker *w, struct pump_flow *f, int to_fd, size_t *out_sent);
/* Forget what is kept and give back what was lent. */
void pump_flow_drop(struct pump_worker *w, struct pump_flow *f);

/* Read into the scratch buffer: OK, WAIT, END or SOURCE_FAILED. */
enum pump_status pump_copy_read(struct pump_worker *w, int from_fd, size_t max, size_t *out_len);
/* Send `bytes` behind what is kept and keep what is not accepted: OK, BLOCKED, SINK_FAILED or NO_MEMORY. */
enum pump_status pump_copy_write(struct pump_flow *f, int to_fd, const uint8_t *bytes, size_t len,
				 size_t *out_sent);
/* Keep `bytes` without trying to send: OK or NO_MEMORY. */
enum pump_status pump_copy_keep(struct pump_flow *f, const uint8_t *bytes, size_t len);

/* Borrow an empty pipe; NULL when all are lent. */
struct pump_pipe *pump_lend_pipe(struct pump_worker *w) ATTR_MUST_CHECK;
/* Give it back; bytes still in it are thrown away, or the pipe is when they cannot be. */
void pump_return_pipe(struct pump_worker *w, struct pump_pipe *p);

#endif
