/* A guest, a relay and an origin, joined by TCP on the loopback; and a stream that can be checked at any place. */
#ifndef EGRESS_TESTS_UNIT_NET_RELAY_RIG_H
#define EGRESS_TESTS_UNIT_NET_RELAY_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "metrics/metrics.h"
#include "net/loop.h"
#include "net/pump.h"
#include "net/relay.h"

struct relay_rig {
	struct loop *loop;
	struct pump_worker worker;
	struct relay *relay;
	int guest, guest_fd;   /* the guest's end, the relay's end; -1 once closed */
	int origin, origin_fd;
	size_t fds_before;
	unsigned ends, flushes;
	enum relay_end why;
	bool destroy_when_flushed;
};

extern struct metrics relay_rig_metrics;

/* A rig with so many pipes and no relay yet. */
void relay_rig_build(struct relay_rig *rig, unsigned pipes);
/* Start the relay; `first` is text. */
void relay_rig_start(struct relay_rig *rig, const struct relay_options *options, const char *first);
/* What the session does when a relay has ended: destroy it, close both descriptors. */
void relay_rig_close_relay(struct relay_rig *rig);
/* Take everything down; fails when a descriptor or a pipe is left. */
void relay_rig_tear_down(struct relay_rig *rig);
/* Counts its end, and a flush (closing the relay when the rig says so). */
void relay_rig_on_end(void *arg, enum relay_end why);
void relay_rig_on_flushed(void *arg);
/* Let everything that is under way happen. */
void relay_rig_turn(struct relay_rig *rig);
/* What `fd` has received by now, as text: "-" for nothing, "." behind it for FIN, "!" for RST. */
const char *relay_rig_heard(struct relay_rig *rig, int fd);
void relay_rig_say(int fd, const char *text);
/* Shut down the writing half; close; close with a reset. */
void relay_rig_finish(int fd);
void relay_rig_close(int *fd);
void relay_rig_reset(int *fd);
/* Write what goes into `fd` of the stream that is at *at. */
void relay_rig_pour(int fd, uint64_t *at, uint64_t len);
/* Read at most `max` bytes and check that they go on where *at is. */
void relay_rig_drink(int fd, uint64_t *at, size_t max);

#endif
