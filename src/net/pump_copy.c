/*
 * Bytes through the worker's scratch buffer; only what the other side does not take is kept, in a buffer of the flow's
 * own. The way of small and of filtered flows. Called by relay and pump.
 */
#include <errno.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "net/pump_internal.h"

enum pump_status pump_copy_read(struct pump_worker *w, int from_fd, size_t max, size_t *out_len)
{
	size_t len = max < PUMP_SCRATCH_LEN ? max : PUMP_SCRATCH_LEN;
	ssize_t n;

	do {
		n = recv(from_fd, w->scratch, len, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? PUMP_WAIT : PUMP_SOURCE_FAILED;
	if (n == 0)
		return PUMP_END;
	*out_len = (size_t)n;
	return PUMP_OK;
}

/* How many bytes the socket took; the status says why not all. */
static enum pump_status send_some(int to_fd, const uint8_t *bytes, size_t len, size_t *out_sent)
{
	ssize_t n;

	*out_sent = 0;
	do {
		n = send(to_fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? PUMP_BLOCKED : PUMP_SINK_FAILED;
	*out_sent = (size_t)n;
	return (size_t)n == len ? PUMP_OK : PUMP_BLOCKED;
}

enum pump_status pump_copy_keep(struct pump_flow *f, const uint8_t *bytes, size_t len)
{
	if (len == 0)
		return PUMP_OK;
	if (f->unsent == NULL) {
		f->unsent = alloc_zeroed(sizeof(*f->unsent));
		if (f->unsent == NULL)
			return PUMP_NO_MEMORY;
		/* The bound of a way is kept by reading nothing while anything is unsent. */
		buf_init(f->unsent, PUMP_UNSENT_MAX);
	}
	return buf_append(f->unsent, bytes, len) == ERR_OK ? PUMP_OK : PUMP_NO_MEMORY;
}

enum pump_status pump_copy_write(struct pump_flow *f, int to_fd, const uint8_t *bytes, size_t len,
				 size_t *out_sent)
{
	enum pump_status s = PUMP_BLOCKED;
	size_t sent = 0;

	if (len == 0)
		s = pump_flow_is_empty(f) ? PUMP_OK : PUMP_BLOCKED;
	else if (pump_flow_is_empty(f))
		s = send_some(to_fd, bytes, len, &sent);
	*out_sent = sent;
	if (s != PUMP_BLOCKED)
		return s;
	s = pump_copy_keep(f, bytes + sent, len - sent);
	return s == PUMP_OK ? PUMP_BLOCKED : s;
}

static enum pump_status move(struct pump_worker *w, struct pump_flow *f, int from_fd, int to_fd, size_t max,
			     struct pump_moved *out_moved)
{
	struct pump_moved moved = { 0 };
	enum pump_status s = pump_copy_read(w, from_fd, max, &moved.read);

	if (s == PUMP_OK)
		s = pump_copy_write(f, to_fd, w->scratch, moved.read, &moved.sent);
	*out_moved = moved;
	return s;
}

static enum pump_status flush(struct pump_worker *w, struct pump_flow *f, int to_fd, size_t *out_sent)
{
	enum pump_status s = send_some(to_fd, buf_data(f->unsent), f->unsent->len, out_sent);

	buf_consume(f->unsent, *out_sent);
	if (s == PUMP_OK) {
		buf_finish(f->unsent);
		alloc_free(f->unsent);
		f->unsent = NULL;
	}
	return s;
}

const struct pump_ops pump_copy = { .move = move, .flush = flush };
