/* A DNS query in our own bytes (RFC 1035 section 4.1, RFC 6891): id and letter case are the caller's. */
#ifndef EGRESS_WIRE_DNS_QUERY_H
#define EGRESS_WIRE_DNS_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dname.h"

#define DNS_QUERY_MAX 300 /* header 12, name 255, type and class 4, OPT 11, rounded up */
#define DNS_EDNS_PAYLOAD 1232 /* bytes; fits every path's MTU */

enum dns_type { DNS_TYPE_A = 1, DNS_TYPE_CNAME = 5, DNS_TYPE_AAAA = 28 };

struct dns_query {
	uint16_t id;
	uint16_t type;        /* enum dns_type */
	size_t len;           /* bytes of the message */
	size_t question_len;  /* bytes of the question section, which starts at offset 12 */
	uint8_t bytes[DNS_QUERY_MAX];
};

/*
 * Build a recursive query for `name` with an OPT record. Bit i of `case_bits` (i-th letter of the name, 256 bits) says
 * whether that letter is sent in upper case; NULL sends lower case.
 */
void dns_query_build(const struct dname *name, enum dns_type type, uint16_t id,
		     const uint8_t case_bits[32], struct dns_query *out_query);

/* How a datagram or TCP message relates to a query we sent. */
enum dns_fit {
	DNS_FIT_MISFIT,      /* not ours: drop it and keep waiting */
	DNS_FIT_CASE_DIFFERS, /* ours, but the question came back in other letter case */
	DNS_FIT_EXACT,
};

/*
 * Is this message an answer to `query`? Checks length, id, QR, opcode, one question, and the question's bytes (RFC 5452
 * section 9.1). Looks at nothing behind the question.
 */
enum dns_fit dns_query_fits(const struct dns_query *query, const uint8_t *message, size_t len);

#endif
