/* Address, prefix and endpoint values: parse, print, compare. Work on octets, never on text. */
#ifndef EGRESS_BASE_ADDR_H
#define EGRESS_BASE_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/attr.h"
#include "base/text.h"

enum addr_family { ADDR_NONE = 0, ADDR_V4 = 4, ADDR_V6 = 6 };

struct addr {
	uint8_t family;    /* enum addr_family */
	uint8_t octets[16]; /* IPv4 uses the first four; the rest are zero */
};

struct prefix {
	struct addr addr; /* bits beyond `len` are zero */
	uint8_t len;      /* bits, 0-32 or 0-128 */
};

struct endpoint {
	struct addr addr;
	uint16_t port; /* host byte order */
};

#define ADDR_TEXT_MAX 46     /* with the zero byte */
#define PREFIX_TEXT_MAX 50
#define ENDPOINT_TEXT_MAX 56 /* [v6]:port with the zero byte */

struct addr addr_v4(const uint8_t octets[4]);
struct addr addr_v6(const uint8_t octets[16]);
static inline size_t addr_len(const struct addr *a)
{
	return a->family == ADDR_V4 ? 4 : 16;
}
bool addr_equal(const struct addr *a, const struct addr *b);
/* Total order: family, then octets. */
int addr_compare(const struct addr *a, const struct addr *b);
/* Canonical IPv4 (four decimal octets, no leading zeros) or any RFC 4291 text of IPv6, no zone, no brackets. */
bool addr_parse(struct text t, struct addr *out_addr) ATTR_MUST_CHECK;
/* Print (RFC 5952) into `out_text` of ADDR_TEXT_MAX bytes; returns out_text. */
const char *addr_print(const struct addr *a, char *out_text);
/* From a socket address; false for other families and for IPv6 with a scope id. Mapped IPv4 stays IPv6. */
bool addr_from_sockaddr(const struct sockaddr *sa, struct endpoint *out_endpoint) ATTR_MUST_CHECK;
/* As addr_from_sockaddr for a peer of ours: an IPv4-mapped peer of a dual-stack listener becomes IPv4. */
bool addr_from_peer(const struct sockaddr *sa, struct endpoint *out_endpoint) ATTR_MUST_CHECK;
socklen_t endpoint_to_sockaddr(const struct endpoint *e, struct sockaddr_storage *out_sa);
const char *endpoint_print(const struct endpoint *e, char *out_text);
bool endpoint_equal(const struct endpoint *a, const struct endpoint *b);
/* "1.2.3.4:53", "[::1]:53", or an address alone (then port = default_port; 0 makes the port mandatory). Port 0 refuses. */
bool endpoint_parse(struct text t, uint16_t default_port, struct endpoint *out_endpoint) ATTR_MUST_CHECK;

/* "10.0.0.0/8", "fd00::/8"; an address alone is a full-length prefix; host bits set refuse. */
bool prefix_parse(struct text t, struct prefix *out_prefix) ATTR_MUST_CHECK;
const char *prefix_print(const struct prefix *p, char *out_text);
bool prefix_contains(const struct prefix *p, const struct addr *a);

#endif
