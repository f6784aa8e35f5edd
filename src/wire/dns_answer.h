/*
 * A raw DNS response (RFC 1035 section 4) to the addresses that the asked name owns: question echoed, CNAME chain followed
 * from the asked name whatever the order of records, TTLs, strict bounds. Ours, not a library's. Classifies no address.
 */
#ifndef EGRESS_WIRE_DNS_ANSWER_H
#define EGRESS_WIRE_DNS_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/cursor.h"
#include "wire/dns_query.h"

#define DNS_ANSWER_ADDRS_MAX 32  /* more addresses than this in one answer: malformed */
#define DNS_ANSWER_CHAIN_MAX 12  /* CNAME links followed */
#define DNS_ANSWER_RECORDS_MAX 256
#define DNS_ANSWER_MESSAGE_MAX 65535

enum dns_outcome {
	DNS_OUTCOME_ADDRESSES,   /* at least one */
	DNS_OUTCOME_NO_ADDRESS,  /* NOERROR, complete, none of this type (no data) */
	DNS_OUTCOME_NXDOMAIN,
	DNS_OUTCOME_SERVER_FAILURE, /* SERVFAIL, REFUSED, NOTIMP, FORMERR or any other rcode */
	DNS_OUTCOME_TRUNCATED,   /* TC set: ask again over TCP; nothing else was read */
	DNS_OUTCOME_MALFORMED,   /* breaks the rules, loops, too long a chain, misfit */
	DNS_OUTCOME_TIMEOUT,     /* never made here: the resolver's word for silence */
	DNS_OUTCOME_UNREACHABLE, /* never made here: no server could be asked */
};

struct dns_answer {
	enum dns_outcome outcome;
	uint8_t rcode;
	uint8_t chain_count;    /* CNAME links followed */
	uint8_t addr_count;
	uint32_t ttl_s;         /* least TTL along chain and addresses; for negative answers the SOA's bound (RFC 2308), or 0 */
	struct dname canonical; /* the end of the chain; equals the asked name without a chain */
	struct addr addrs[DNS_ANSWER_ADDRS_MAX]; /* in the order of the message, duplicates removed */
};

/*
 * Read the response to `query`. Always writes *out_answer: anything not understood is MALFORMED, and an outcome other than
 * ADDRESSES carries no address. Records owned by names off the chain are ignored; additional records are only bounds-checked.
 */
void dns_answer_read(const struct dns_query *query, const uint8_t *message, size_t len,
		     struct dns_answer *out_answer);

/* The outcome's stable word for logs and metrics. */
const char *dns_outcome_word(enum dns_outcome o);

#endif
