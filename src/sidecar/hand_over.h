/*
 * What the daemon may not open itself: options, listening sockets, geo databases and the admin socket, opened here and
 * passed as descriptors; looked at again each second and after a reload. Knows no policy.
 */
#ifndef EGRESS_SIDECAR_HAND_OVER_H
#define EGRESS_SIDECAR_HAND_OVER_H

#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "config/load.h"
#include "control/channel.h"

struct hand_over;

/* `config` is referenced. Nothing is opened before a daemon is connected. */
enum err hand_over_create(struct config *config, struct hand_over **out_hand_over) ATTR_MUST_CHECK;
/* Accepts NULL. Socket files stay: the daemon may go on listening. */
void hand_over_destroy(struct hand_over *h);

/* A daemon said WELCOME (borrowed until hand_over_disconnect): everything is opened and sent, then READY. */
void hand_over_connect(struct hand_over *h, struct channel *channel, unsigned workers);
void hand_over_disconnect(struct hand_over *h);
/* The channel's queue ran empty. */
void hand_over_on_drained(struct hand_over *h);

/*
 * Use another configuration from now on (referenced): what differs is sent. Names for templates must be added again after it. NO_MEMORY: some
 * listeners are missing until the next call.
 */
enum err hand_over_set_config(struct hand_over *h, struct config *config) ATTR_MUST_CHECK;
/*
 * Listener names of leases, for templates: begin, add each (again and again is fine), end. Names that are no part of a file name, and those of
 * a section, make no listener. What is gone by the end is closed and its socket file removed.
 */
void hand_over_names_begin(struct hand_over *h);
enum err hand_over_names_add(struct hand_over *h, struct text name) ATTR_MUST_CHECK;
void hand_over_names_end(struct hand_over *h);
/* Try again what failed, and look whether files were replaced. Call each second. */
void hand_over_tick(struct hand_over *h);

/* What could not be opened or sent so far, for health. */
size_t hand_over_failures(const struct hand_over *h);

#endif
