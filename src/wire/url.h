/*
 * URLs and URL references to the scheme, host and port they lead to (RFC 3986, read as strictly as
 * the URL Standard of the browsers demands too): where two readers could see two authorities, there
 * is no result. Paths are not interpreted.
 */
#ifndef EGRESS_WIRE_URL_H
#define EGRESS_WIRE_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/dname.h"
#include "base/scheme.h"
#include "base/text.h"

struct url_host {
	bool is_address;
	struct dname name; /* !is_address: canonical */
	struct addr addr;  /* is_address */
	uint16_t port;	   /* never 0 */
};

struct url {
	enum scheme scheme;
	struct url_host host;
};

/*
 * Read "host", "host:port", "1.2.3.4", "[v6]:port". Refuses user-info, percent signs, an empty host
 * or port, a port with a sign, a leading zero or out of range, zones, and numbers that are no
 * canonical address. `default_port` 0 makes the port mandatory.
 */
bool url_read_host(struct text t, uint16_t default_port, struct url_host *out_host) ATTR_MUST_CHECK;
/* Read an absolute URL with an authority and one of our schemes (in any letter case). */
bool url_read(struct text t, struct url *out_url) ATTR_MUST_CHECK;
/*
 * Read a reference as a client that fetched `base` would follow it: absolute, "//host/…", or
 * relative (then it leads to the authority of `base`). Refuses every backslash, blank and control
 * character, and relative paths that turn into "//…" once their dots are removed.
 */
bool url_resolve(struct text reference, const struct url *base,
		 struct url *out_url) ATTR_MUST_CHECK;
bool url_host_equal(const struct url_host *a, const struct url_host *b);

#endif
