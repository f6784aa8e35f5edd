/* What the tests of src/control share: packet sockets, temporary folders, counted descriptors, turns until something is true. */
#ifndef EGRESS_TESTS_UNIT_CONTROL_FIXTURE_H
#define EGRESS_TESTS_UNIT_CONTROL_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "net/loop.h"

/* Descriptors this process has open now. */
size_t fixture_fd_count(void);
/* Two connected packet sockets, close-on-exec. */
void fixture_packet_pair(int out_fds[2]);
/* Turn until *done is true, or until 10 seconds went by (then false). */
bool fixture_turn_until(struct loop *l, const bool *done);
/* Turn until nothing is left to do at once. */
void fixture_settle(struct loop *l);
/* Send bytes as one packet with `count` descriptors. */
void fixture_send_packet(int fd, const void *bytes, size_t len, const int *fds, size_t count);
/* A new folder; fixture_remove_folder removes it with all files in it. */
void fixture_make_folder(char out_path[64]);
void fixture_remove_folder(const char *path);

#endif
