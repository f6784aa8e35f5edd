/* What a guest asked for: a name or an address, and a port. The one reader of the SOCKS name field and of host texts. */
#ifndef EGRESS_FACTS_TARGET_H
#define EGRESS_FACTS_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/dname.h"
#include "base/text.h"

enum target_kind { TARGET_NAME, TARGET_ADDRESS };

struct target {
	enum target_kind kind;
	struct dname name; /* kind == NAME */
	struct addr addr;  /* kind == ADDRESS */
	uint16_t port;
};

enum target_result {
	TARGET_OK,
	TARGET_NAME_INVALID,    /* neither a name nor an address */
	TARGET_LITERAL_IN_NAME, /* an address in a spelling we do not read (127.1, 0x7f.1, 010.0.0.1) */
};

#define TARGET_TEXT_MAX 264 /* host, colon, port, zero byte */

/*
 * Read a host text: canonical IPv4, IPv6 (also in one pair of brackets) is an address; else a canonical name. A number as
 * last label that is not canonical IPv4 is LITERAL_IN_NAME. *out_target is written only for OK.
 */
enum target_result target_from_host(struct text host, uint16_t port, struct target *out_target)
	ATTR_MUST_CHECK;
void target_from_addr(const struct addr *addr, uint16_t port, struct target *out_target);
bool target_equal(const struct target *a, const struct target *b);
/* "name:443", "192.0.2.1:443", "[2001:db8::1]:443" into TARGET_TEXT_MAX bytes; returns out_text. */
const char *target_print(const struct target *t, char *out_text);
/* As target_print without the port. */
const char *target_print_host(const struct target *t, char *out_text);

#endif
