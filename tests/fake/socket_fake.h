/*
 * net/sockopt.h and connect(2) over invented origins: link socket_fake.c, with -Wl,--wrap=connect, and no packet leaves. A socket is one
 * end of a pair; its other end is the origin's. Who answers, how and when, is the script's. One at a time in a process.
 */
#ifndef EGRESS_TESTS_FAKE_SOCKET_FAKE_H
#define EGRESS_TESTS_FAKE_SOCKET_FAKE_H

#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "net/loop.h"

/* What becomes of a connection to this endpoint: an errno value after a while, 0: connected; UINT64_MAX: never anything. */
typedef void socket_fake_dial_fn(void *arg, const struct endpoint *to, int *out_error, uint64_t *out_after_ms);

/* Time is this loop's. Forgets everything before. */
void socket_fake_begin(struct loop *loop, socket_fake_dial_fn *on_dial, void *arg);
/* Close what is left of the origins. Returns the sockets of the proxy's that are still open. */
size_t socket_fake_end(void);
/* Parts of the loop's script: real descriptors by poll(2), connecting ones by the time. */
unsigned socket_fake_ready(int fd, unsigned what);
uint64_t socket_fake_next_ms(void);
/* The origin's end of the newest connection to `at`; -1 when there is none. */
int socket_fake_origin(const struct endpoint *at);

#endif
