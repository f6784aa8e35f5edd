/*
 * Addresses, prefixes and endpoints as octets. Accepts one spelling of IPv4, RFC 4291 spellings of IPv6; what an
 * address is (public, private, …) is not known here.
 */
#include "base/addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

struct addr addr_v4(const uint8_t octets[4])
{
	struct addr a = { .family = ADDR_V4 };

	memcpy(a.octets, octets, 4);
	return a;
}

struct addr addr_v6(const uint8_t octets[16])
{
	struct addr a = { .family = ADDR_V6 };

	memcpy(a.octets, octets, 16);
	return a;
}

bool addr_equal(const struct addr *a, const struct addr *b)
{
	return addr_compare(a, b) == 0;
}

int addr_compare(const struct addr *a, const struct addr *b)
{
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	return memcmp(a->octets, b->octets, addr_len(a));
}

bool addr_parse(struct text t, struct addr *out_addr)
{
	char copy[ADDR_TEXT_MAX];
	struct addr a = { 0 };
	int family;

	if (t.len == 0 || t.len >= sizeof(copy) || memchr(t.at, '\0', t.len) != NULL)
		return false;
	memcpy(copy, t.at, t.len);
	copy[t.len] = '\0';
	family = memchr(t.at, ':', t.len) != NULL ? AF_INET6 : AF_INET;
	a.family = family == AF_INET6 ? ADDR_V6 : ADDR_V4;
	/* inet_pton refuses leading zeros, short and hex forms of IPv4, and zone ids. */
	if (inet_pton(family, copy, a.octets) != 1)
		return false;
	*out_addr = a;
	return true;
}

const char *addr_print(const struct addr *a, char *out_text)
{
	int family = a->family == ADDR_V4 ? AF_INET : AF_INET6;

	if (a->family == ADDR_NONE ||
	    inet_ntop(family, a->octets, out_text, ADDR_TEXT_MAX) == NULL) {
		out_text[0] = '-';
		out_text[1] = '\0';
	}
	return out_text;
}

bool addr_from_sockaddr(const struct sockaddr *sa, struct endpoint *out_endpoint)
{
	struct endpoint e = { 0 };

	if (sa->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, sa, sizeof(in));
		e.addr.family = ADDR_V4;
		memcpy(e.addr.octets, &in.sin_addr, 4);
		e.port = ntohs(in.sin_port);
	} else if (sa->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, sa, sizeof(in6));
		if (in6.sin6_scope_id != 0)
			return false;
		e.addr.family = ADDR_V6;
		memcpy(e.addr.octets, &in6.sin6_addr, 16);
		e.port = ntohs(in6.sin6_port);
	} else {
		return false;
	}
	*out_endpoint = e;
	return true;
}

bool addr_from_peer(const struct sockaddr *sa, struct endpoint *out_endpoint)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct endpoint e;

	if (!addr_from_sockaddr(sa, &e))
		return false;
	if (e.addr.family == ADDR_V6 && memcmp(e.addr.octets, mapped, sizeof(mapped)) == 0)
		e.addr = addr_v4(e.addr.octets + sizeof(mapped));
	*out_endpoint = e;
	return true;
}

socklen_t endpoint_to_sockaddr(const struct endpoint *e, struct sockaddr_storage *out_sa)
{
	memset(out_sa, 0, sizeof(*out_sa));
	if (e->addr.family == ADDR_V4) {
		struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(e->port) };

		memcpy(&in.sin_addr, e->addr.octets, 4);
		memcpy(out_sa, &in, sizeof(in));
		return sizeof(in);
	}
	if (e->addr.family == ADDR_V6) {
		struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(e->port) };

		memcpy(&in6.sin6_addr, e->addr.octets, 16);
		memcpy(out_sa, &in6, sizeof(in6));
		return sizeof(in6);
	}
	return 0;
}

const char *endpoint_print(const struct endpoint *e, char *out_text)
{
	char addr[ADDR_TEXT_MAX];
	bool v6 = e->addr.family == ADDR_V6;

	snprintf(out_text, ENDPOINT_TEXT_MAX, "%s%s%s:%u", v6 ? "[" : "",
		 addr_print(&e->addr, addr), v6 ? "]" : "", (unsigned)e->port);
	return out_text;
}

bool endpoint_equal(const struct endpoint *a, const struct endpoint *b)
{
	return a->port == b->port && addr_equal(&a->addr, &b->addr);
}

/* Split into address and port text; the port is empty when there is none. */
static bool endpoint_split(struct text t, struct text *out_addr, struct text *out_port,
			   bool *out_has_port)
{
	const char *end = t.at + t.len;
	const char *after; /* of the address */

	if (t.len > 0 && t.at[0] == '[') {
		const char *close = memchr(t.at, ']', t.len);

		if (close == NULL)
			return false;
		*out_addr = (struct text){ t.at + 1, (size_t)(close - t.at - 1) };
		/* Brackets are for IPv6 alone. */
		if (memchr(out_addr->at, ':', out_addr->len) == NULL)
			return false;
		after = close + 1;
	} else {
		const char *colon = t.len > 0 ? memchr(t.at, ':', t.len) : NULL;

		/* Two colons without brackets: an IPv6 address alone. */
		if (colon != NULL && memchr(colon + 1, ':', (size_t)(end - colon - 1)) != NULL)
			colon = NULL;
		after = colon != NULL ? colon : end;
		*out_addr = (struct text){ t.at, (size_t)(after - t.at) };
	}
	*out_has_port = after < end;
	if (*out_has_port && *after != ':')
		return false;
	*out_port = *out_has_port ? (struct text){ after + 1, (size_t)(end - after - 1) } :
				    (struct text){ end, 0 };
	return true;
}

bool endpoint_parse(struct text t, uint16_t default_port, struct endpoint *out_endpoint)
{
	struct endpoint e = { 0 };
	struct text addr, port_text;
	uint64_t port = default_port;
	bool has_port;

	if (!endpoint_split(t, &addr, &port_text, &has_port) || !addr_parse(addr, &e.addr))
		return false;
	if (has_port && !text_to_u64(port_text, UINT16_MAX, &port))
		return false;
	if (port == 0)
		return false;
	e.port = (uint16_t)port;
	*out_endpoint = e;
	return true;
}

static bool host_bits_are_zero(const struct prefix *p)
{
	for (size_t bit = p->len; bit < addr_len(&p->addr) * 8; bit++) {
		if (p->addr.octets[bit / 8] & (0x80 >> (bit % 8)))
			return false;
	}
	return true;
}

bool prefix_parse(struct text t, struct prefix *out_prefix)
{
	const char *slash = t.len > 0 ? memchr(t.at, '/', t.len) : NULL;
	struct text addr = { t.at, slash != NULL ? (size_t)(slash - t.at) : t.len };
	struct prefix p;
	uint64_t bits, len;

	if (!addr_parse(addr, &p.addr))
		return false;
	bits = addr_len(&p.addr) * 8;
	len = bits;
	if (slash != NULL) {
		struct text len_text = { slash + 1, t.len - addr.len - 1 };

		if (!text_to_u64(len_text, bits, &len))
			return false;
	}
	p.len = (uint8_t)len;
	if (!host_bits_are_zero(&p))
		return false;
	*out_prefix = p;
	return true;
}

const char *prefix_print(const struct prefix *p, char *out_text)
{
	char addr[ADDR_TEXT_MAX];

	snprintf(out_text, PREFIX_TEXT_MAX, "%s/%u", addr_print(&p->addr, addr), (unsigned)p->len);
	return out_text;
}

bool prefix_contains(const struct prefix *p, const struct addr *a)
{
	size_t whole = p->len / 8;
	unsigned rest = p->len % 8;

	if (a->family != p->addr.family || a->family == ADDR_NONE)
		return false;
	if (memcmp(p->addr.octets, a->octets, whole) != 0)
		return false;
	return rest == 0 || ((p->addr.octets[whole] ^ a->octets[whole]) >> (8 - rest)) == 0;
}
