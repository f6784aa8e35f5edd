/* Address to country and AS number; only includer of libmaxminddb. Databases are opened from received descriptors. */
#ifndef EGRESS_FACTS_GEOIP_H
#define EGRESS_FACTS_GEOIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/err.h"

struct geoip;

struct geoip_place {
	bool country_known, asn_known;
	char country[3]; /* ISO 3166-1 alpha-2, upper case, zero-terminated */
	uint32_t asn;
};

/*
 * Open databases from memory files sealed against shrinking and writing (DENIED otherwise); -1 where there is none. Borrows the
 * descriptors for the call; needs /proc and openat.
 */
enum err geoip_open(int country_fd, int asn_fd, struct geoip **out_geoip) ATTR_MUST_CHECK;
/*
 * Copy the regular file behind `fd` into a sealed memory file for geoip_open, for programs that open files themselves. The caller
 * owns *out_fd.
 */
enum err geoip_seal(int fd, int *out_fd) ATTR_MUST_CHECK;
struct geoip *geoip_ref(struct geoip *g);
void geoip_unref(struct geoip *g);
/* Look up; unknown bits stay false. NULL knows nothing. */
void geoip_find(const struct geoip *g, const struct addr *a, struct geoip_place *out_place);

#endif
