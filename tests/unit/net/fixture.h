/* What the tests of src/net share: counted descriptors, connected sockets, turns until something is true. */
#ifndef EGRESS_TESTS_UNIT_NET_FIXTURE_H
#define EGRESS_TESTS_UNIT_NET_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "net/loop.h"

/* Descriptors this process has open now. */
size_t fixture_fd_count(void);
/* A listening TCP socket on 127.0.0.1 (or ::1) and where it listens. */
int fixture_listen(enum addr_family family, int backlog, struct endpoint *out_at);
/* Two connected, non-blocking TCP sockets. */
void fixture_tcp_pair(int out_fds[2]);
/* Two connected, non-blocking unix sockets. */
void fixture_unix_pair(int out_fds[2]);
/* Turn until *done is true, or until 10 seconds went by (then false). */
bool fixture_turn_until(struct loop *l, const bool *done);
/* Write all of it to a socket that has room. */
void fixture_send(int fd, const void *bytes, size_t len);

/* A network namespace of this process's own with only `lo`, up; skips the test where that is not allowed. */
void fixture_own_network(void);
/* Add (or take away) one address of `lo` in such a namespace. */
void fixture_set_address(const struct addr *a, bool there);
/* Add a route of a kind (RTN_UNREACHABLE, RTN_PROHIBIT, …) for one destination. */
void fixture_add_route(const struct addr *to, unsigned char kind);

#endif
