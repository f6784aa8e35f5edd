/*
 * Address to class, by the whole special-address table, unwrapping embedded IPv4 forms so that the class names the inner
 * address. Pure: own addresses, metadata extras, NAT64 prefixes and exceptions come in as arguments.
 */
#ifndef EGRESS_FACTS_ADDR_CLASS_H
#define EGRESS_FACTS_ADDR_CLASS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/addr.h"

/*
 * symbol, word, may a ceiling exception re-open it? Embedded forms may not: what they carry would get past its own class. The
 * switch for NAT64 is a declared prefix.
 */
#define ADDR_CLASSES(X)                                       \
	X(PUBLIC, "public", false)                            \
	X(INVALID, "invalid", false)                          \
	X(OWN, "own", false)                                  \
	X(METADATA, "metadata", false)                        \
	X(LOOPBACK, "loopback", false)                        \
	X(UNSPECIFIED, "unspecified", false)                  \
	X(PRIVATE, "private", true)                           \
	X(SHARED, "shared", true)                             \
	X(LINK_LOCAL, "link_local", true)                     \
	X(UNIQUE_LOCAL, "unique_local", true)                 \
	X(DOCUMENTATION, "documentation", true)               \
	X(BENCHMARK, "benchmark", true)                       \
	X(PROTOCOL, "protocol", true)                         \
	X(ANYCAST, "anycast", true)                           \
	X(MULTICAST, "multicast", true)                       \
	X(RESERVED, "reserved", true)                         \
	X(EMBEDDED, "embedded", false)                        \
	X(NAT64, "nat64", false)

#define ADDR_CLASSES_AS_ENUM(sym, word, reopen) ADDR_CLASS_##sym,
enum addr_class { ADDR_CLASSES(ADDR_CLASSES_AS_ENUM) ADDR_CLASS_COUNT };
#undef ADDR_CLASSES_AS_ENUM

const char *addr_class_word(enum addr_class c);
/* May an operator's exception ever re-open an address of this class? */
bool addr_class_may_reopen(enum addr_class c);

struct own_addresses; /* facts/own_addresses.h */

/* A site's NAT64 prefix (RFC 6052): /32, /40, /48, /56, /64 or /96. */
struct addr_nat64 {
	struct prefix prefix;
};

/* What the classifier must know beyond the table. All borrowed for the call. */
struct addr_site {
	const struct own_addresses *own; /* NULL: none known */
	const struct addr_nat64 *nat64;  /* declared NAT64 prefixes; an address inside is judged by its inner one */
	size_t nat64_count;
};

struct addr_finding {
	enum addr_class class;
	bool has_inner;          /* the address embeds an IPv4 address */
	struct addr inner;       /* that address */
	bool by_declared_nat64;  /* embedded under a declared prefix: `class` is the inner address's */
	const char *range;       /* static text: the table row that decided, "" for public */
	const char *reference;   /* static text: its RFC or vendor */
};

/*
 * Classify. Total: any octets give a finding; an unknown family is INVALID, and so is an address behind a declared NAT64 prefix
 * that breaks RFC 6052. An embedded address that is OWN, METADATA, LOOPBACK or UNSPECIFIED gives its class to what embeds it.
 * Loopback and unspecified keep their class even when they are own addresses. A NULL site declares nothing.
 */
void addr_classify(const struct addr *a, const struct addr_site *site, struct addr_finding *out_finding);

/* One row of the generated table, for documentation and exhaustive tests. */
struct addr_range {
	struct prefix prefix;
	enum addr_class class;
	const char *name, *reference;
};
/* The whole table, most specific first within a family; *out_count rows. */
const struct addr_range *addr_class_table(size_t *out_count);
/* The registry revision the table was made from ("2025-10-09"). */
const char *addr_class_revision(void);

#endif
