/*
 * What a worker lends to its relays: one scratch buffer and a pool of pipes. Promises that a pipe that was given back is
 * empty before anyone else has it, so that no byte of one session can reach another. Refuses to know what a relay is.
 */
#include "net/pump.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net/pump_internal.h"

#define PIPE_LEN_WANTED (1 << 20)
#define PIPE_LEN_LEAST 65536 /* the kernel makes smaller ones once a user has many; they are worse than copying */

static void destroy_pipe(struct pump_pipe *p)
{
	close(p->read_fd);
	close(p->write_fd);
	alloc_free(p);
}

/* NULL when the system gives no more pipes worth having. */
static struct pump_pipe *create_pipe(size_t *out_len)
{
	struct pump_pipe *p = alloc_zeroed(sizeof(*p));
	int fds[2], len;

	if (p == NULL)
		return NULL;
	if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) != 0) {
		alloc_free(p);
		return NULL;
	}
	p->read_fd = fds[0];
	p->write_fd = fds[1];
	(void)fcntl(p->write_fd, F_SETPIPE_SZ, PIPE_LEN_WANTED);
	len = fcntl(p->write_fd, F_GETPIPE_SZ);
	if (len < PIPE_LEN_LEAST) {
		destroy_pipe(p);
		return NULL;
	}
	*out_len = (size_t)len;
	return p;
}

enum err pump_worker_init(struct pump_worker *w, unsigned pipes)
{
	*w = (struct pump_worker){ .scratch = alloc_array(PUMP_SCRATCH_LEN, 1) };
	if (w->scratch == NULL)
		return ERR_NO_MEMORY;
	/* splice(2) has no way to ask for an error instead of the signal. */
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
		alloc_free(w->scratch);
		return ERR_SYSTEM;
	}
	while (w->pipe_count < pipes) {
		size_t len;
		struct pump_pipe *p = create_pipe(&len);

		if (p == NULL)
			break;
		if (w->pipe_count == 0 || len < w->pipe_len)
			w->pipe_len = len;
		p->next = w->free_pipes;
		w->free_pipes = p;
		w->pipe_count++;
	}
	return ERR_OK;
}

void pump_worker_finish(struct pump_worker *w)
{
	assert(w->pipes_lent == 0);
	while (w->free_pipes != NULL) {
		struct pump_pipe *p = w->free_pipes;

		w->free_pipes = p->next;
		destroy_pipe(p);
	}
	alloc_free(w->scratch);
	*w = (struct pump_worker){ 0 };
}

struct pump_pipe *pump_lend_pipe(struct pump_worker *w)
{
	struct pump_pipe *p = w->free_pipes;

	if (p == NULL)
		return NULL;
	w->free_pipes = p->next;
	p->next = NULL;
	w->pipes_lent++;
	return p;
}

/* True once nothing is in it. */
static bool drain(struct pump_worker *w, struct pump_pipe *p)
{
	while (p->len > 0) {
		ssize_t n = read(p->read_fd, w->scratch, PUMP_SCRATCH_LEN);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || (size_t)n > p->len)
			return false;
		p->len -= (size_t)n;
	}
	return true;
}

void pump_return_pipe(struct pump_worker *w, struct pump_pipe *p)
{
	assert(w->pipes_lent > 0);
	w->pipes_lent--;
	if (!drain(w, p)) {
		destroy_pipe(p);
		w->pipe_count--;
		return;
	}
	p->next = w->free_pipes;
	w->free_pipes = p;
}

enum pump_status pump_flush(struct pump_worker *w, struct pump_flow *f, int to_fd, size_t *out_sent)
{
	enum pump_status s = PUMP_OK;
	size_t by_splice = 0, by_copy = 0;

	if (f->pipe != NULL)
		s = pump_splice.flush(w, f, to_fd, &by_splice);
	if (s == PUMP_OK && f->unsent != NULL)
		s = pump_copy.flush(w, f, to_fd, &by_copy);
	*out_sent = by_splice + by_copy;
	return s;
}

void pump_flow_drop(struct pump_worker *w, struct pump_flow *f)
{
	if (f->pipe != NULL)
		pump_return_pipe(w, f->pipe);
	f->pipe = NULL;
	if (f->unsent != NULL)
		buf_finish(f->unsent);
	alloc_free(f->unsent);
	f->unsent = NULL;
}
