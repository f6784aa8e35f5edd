/* What worker.c does on its own thread for the orders of worker_order.c, and the sizes that its pools need. */
#ifndef EGRESS_PROXY_WORKER_INTERNAL_H
#define EGRESS_PROXY_WORKER_INTERNAL_H

#include "proxy/worker.h"

/* Start accepting on `fd`, which is closed on failure. */
bool worker_add_listener(struct worker *w, const char *name, int fd, uint64_t epoch);
uint64_t worker_remove_listeners(struct worker *w, const char *name);
uint64_t worker_remove_older_listeners(struct worker *w, uint64_t epoch);
/* Stop accepting and close handshakes; returns the sessions left. */
uint64_t worker_begin_drain(struct worker *w);
/* Cut every session of a slot; returns how many. */
uint64_t worker_close_slot(struct worker *w, uint32_t slot, enum reason why);
/* Judge by `world` from now on (its reference is taken over); returns the sessions that this ended. */
uint64_t worker_take_world(struct worker *w, struct world *world);

size_t handshake_size(void);
size_t establish_size(void);
size_t tunnel_size(void);

#endif
