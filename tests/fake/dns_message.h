/*
 * Replies to a DNS query, right and wrong, for servers in tests: the scripted one on real sockets and the one over invented
 * descriptors. Writes what it is told to; nothing here checks anything.
 */
#ifndef EGRESS_TESTS_FAKE_DNS_MESSAGE_H
#define EGRESS_TESTS_FAKE_DNS_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

enum dns_act {
	DNS_ACT_ANSWER,         /* addresses of the asked type: 192.0.2.1…, 2001:db8::1…; TTL 300 */
	DNS_ACT_NXDOMAIN,
	DNS_ACT_NO_DATA,
	DNS_ACT_SERVFAIL,
	DNS_ACT_REFUSED,
	DNS_ACT_FORMERR,        /* without an OPT, as servers older than EDNS say it */
	DNS_ACT_TRUNCATED,
	DNS_ACT_WRONG_ID,
	DNS_ACT_WRONG_QUESTION, /* an answer to another name */
	DNS_ACT_LOWER_CASE,     /* a right answer, the question in small letters */
	DNS_ACT_REFLECT,        /* the query itself */
	DNS_ACT_EMPTY,          /* no bytes */
	DNS_ACT_SHORT,          /* five bytes of header */
	DNS_ACT_GARBAGE,        /* our id and question, then a count that lies */
	DNS_ACT_COUNT,
};

#define DNS_MESSAGE_QUERY_MAX 512
#define DNS_MESSAGE_MAX 2048

/* Bytes of the question that starts behind the header of `query`; 0 when there is none. */
size_t dns_message_question_len(const uint8_t *query, size_t len);
/* Reply to a query that has a question and at most DNS_MESSAGE_QUERY_MAX bytes. Returns the length. */
size_t dns_message_make(enum dns_act act, const uint8_t *query, size_t len, unsigned addr_count,
			uint8_t out_message[DNS_MESSAGE_MAX]);

#endif
