/* DNS responses of any shape for tests, right or wrong: a header that echoes a query, then record
 * after record. */
#ifndef EGRESS_TESTS_WIRE_ANSWER_BUILD_H
#define EGRESS_TESTS_WIRE_ANSWER_BUILD_H

#include <stddef.h>
#include <stdint.h>

#include "wire/dns_query.h"

enum answer_section { IN_ANSWER, IN_AUTHORITY, IN_ADDITIONAL };

struct answer_build {
	size_t len;
	uint8_t bytes[140000];
};

/* Start with the header and question of `query`, and these flags (0x8180: an ordinary answer). */
void answer_build_init(struct answer_build *b, const struct dns_query *query, uint16_t flags);
/* Append a record and count it. `owner` is text: labels between dots, "." for the root, "@12" a
 * pointer to offset 12. */
void answer_build_record(struct answer_build *b, enum answer_section section, const char *owner,
			 uint16_t type, uint16_t class, uint32_t ttl_s, const void *data,
			 size_t len);
/* An A or AAAA record, by the text of the address. */
void answer_build_address(struct answer_build *b, const char *owner, uint32_t ttl_s,
			  const char *address);
/* A CNAME record; `target` is text as an owner is. */
void answer_build_alias(struct answer_build *b, const char *owner, uint32_t ttl_s,
			const char *target);
/* An SOA in the authority section whose MINIMUM is this. */
void answer_build_soa(struct answer_build *b, const char *owner, uint32_t ttl_s,
		      uint32_t minimum_s);
/* Write a name as an owner is given; returns its length. */
size_t answer_build_name(const char *text, uint8_t *out_wire);

#endif
