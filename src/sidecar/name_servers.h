/* The machine's own name servers, for a configuration that names none. */
#ifndef EGRESS_SIDECAR_NAME_SERVERS_H
#define EGRESS_SIDECAR_NAME_SERVERS_H

#include <stddef.h>

#include "base/addr.h"
#include "base/text.h"

#define NAME_SERVERS_MAX 8

/* The "nameserver" lines of a resolv.conf text, in order; lines that are not understood (scoped addresses) are left out. */
size_t name_servers_parse(struct text text, struct endpoint out_servers[NAME_SERVERS_MAX]);
/* The same of /etc/resolv.conf; 0 when it cannot be read. */
size_t name_servers_read(struct endpoint out_servers[NAME_SERVERS_MAX]);

#endif
