/*
 * The ways to move bytes between two sockets: copy through the worker's one scratch buffer, or splice through a lent pipe when
 * a flow is bulky. One struct per worker thread; pipes are made and sized before privilege is dropped.
 */
#ifndef EGRESS_NET_PUMP_H
#define EGRESS_NET_PUMP_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

#define PUMP_SCRATCH_LEN 262144
#define PUMP_SPLICE_FROM 16384 /* a read of this many bytes makes a flow bulky; a move under half of it ends that */

struct pump_pipe;

struct pump_worker {
	uint8_t *scratch;        /* owned: PUMP_SCRATCH_LEN bytes, contents valid within one call only */
	struct pump_pipe *free_pipes; /* owned */
	unsigned pipe_count, pipes_lent;
	size_t pipe_len;         /* bytes each pipe holds */
};

/*
 * Make scratch and up to `pipes` pipes of up to 1 MiB; fewer or smaller ones are not an error (0 pipes: copy only). Makes the process
 * ignore SIGPIPE, which splice(2) cannot be asked not to raise.
 */
enum err pump_worker_init(struct pump_worker *w, unsigned pipes) ATTR_MUST_CHECK;
void pump_worker_finish(struct pump_worker *w);

#endif
