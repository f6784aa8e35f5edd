/* Socket options by name, errors typed: what carries policy must not fail in silence. */
#ifndef EGRESS_NET_SOCKOPT_H
#define EGRESS_NET_SOCKOPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/err.h"

/*
 * Keep the descriptors from `first` on for control: guests may use up all others, not these. The kernel gives the lowest that is free, so
 * its number says how many are taken. Called once, before there are threads; without it none are kept.
 */
void sockopt_reserve_from(int first);
/* A descriptor that was just opened for a guest: itself, or closed and -1 with EMFILE when it is one of those kept. */
int sockopt_for_guest(int fd);
/* A non-blocking, close-on-exec TCP socket of the family of `a`, for a guest. SYSTEM with errno on failure. */
enum err sockopt_open_tcp(enum addr_family family, int *out_fd) ATTR_MUST_CHECK;
enum err sockopt_no_delay(int fd) ATTR_MUST_CHECK;
/* Keepalive with explicit idle, interval and count, and TCP_USER_TIMEOUT. */
enum err sockopt_keepalive(int fd, unsigned idle_s, unsigned interval_s, unsigned count) ATTR_MUST_CHECK;
/* Make close(2) send RST. */
enum err sockopt_reset_on_close(int fd) ATTR_MUST_CHECK;
/* Has the other end acknowledged all that was sent, the end included? Also true of what is no TCP socket. Linux 4.6. */
bool sockopt_is_delivered(int fd);
/* Bind to a source address without taking a port yet (IP_BIND_ADDRESS_NO_PORT, Linux 4.2). */
enum err sockopt_source(int fd, const struct addr *source) ATTR_MUST_CHECK;
enum err sockopt_mark(int fd, uint32_t mark) ATTR_MUST_CHECK;
/* The pending error of a socket (SO_ERROR), 0 if none. */
int sockopt_take_error(int fd);
enum err sockopt_peer(int fd, struct endpoint *out_peer) ATTR_MUST_CHECK;
enum err sockopt_local(int fd, struct endpoint *out_local) ATTR_MUST_CHECK;

#endif
