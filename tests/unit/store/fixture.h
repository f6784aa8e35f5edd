/* What the tests of src/sidecar share: temporary folders, counted descriptors, files, and the daemon's end of a connection. */
#ifndef EGRESS_TESTS_UNIT_STORE_FIXTURE_H
#define EGRESS_TESTS_UNIT_STORE_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "control/channel.h"
#include "net/loop.h"

/* Descriptors this process has open now. */
size_t fixture_fd_count(void);
/* A new folder; fixture_remove_folder removes it with everything in it. */
void fixture_make_folder(char out_path[64]);
void fixture_remove_folder(const char *path);
/* "folder/name" in a static buffer; eight of them at a time. */
const char *fixture_path(const char *folder, const char *name);
void fixture_write(const char *path, const char *text);
/* Whole file into a static buffer, zero-terminated; NULL when it is not there. */
const char *fixture_read(const char *path);
/* Turn until *done is true, or until 10 seconds went by (then false). */
bool fixture_turn_until(struct loop *l, const bool *done);
/* Turn until nothing is left to do at once. */
void fixture_settle(struct loop *l);

/* A channel of ours and the raw other end. */
struct fixture_link {
	struct loop *loop;
	struct channel *channel;
	int other;
	unsigned closed;
	unsigned char packet[CTL_MSG_MAX];
};
void fixture_link_open(struct fixture_link *link);
void fixture_link_close(struct fixture_link *link);
/* The next message that the daemon would see; false when there is none. *out_fd is the caller's. */
bool fixture_link_next(struct fixture_link *link, struct ctl_msg *out_msg, int *out_fd);

#endif
