/* Listening sockets, opened by the sidecar: for the daemon, which opens nothing after boot, and for what it serves itself. */
#ifndef EGRESS_NET_OPEN_SOCKET_H
#define EGRESS_NET_OPEN_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/err.h"

/*
 * Listen on a unix stream socket at `path` with exactly these permissions. It takes the place of a socket that is there, in one step: what
 * connects finds the old or the new one. EXISTS when something else than a socket is there, INVALID when the path is too long,
 * SYSTEM (errno). The caller owns *out_fd, and the file.
 */
enum err open_socket_unix(const char *path, uint32_t mode, int backlog, int *out_fd) ATTR_MUST_CHECK;
/*
 * Listen on TCP; IPv6 sockets take IPv6 only. A shared port (SO_REUSEPORT) lets each worker have a socket of its own, and others of this user
 * too. EXISTS: the port is taken.
 */
enum err open_socket_tcp(const struct endpoint *at, int backlog, bool is_shared, int *out_fd) ATTR_MUST_CHECK;

#endif
