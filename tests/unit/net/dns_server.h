/*
 * A small scripted DNS server for tests: UDP and TCP on one loopback port, in a thread of the test's own process. Every query over
 * UDP is met by the script's acts in their order, every one over TCP by its single way. Remembers what it was asked.
 */
#ifndef EGRESS_TESTS_UNIT_NET_DNS_SERVER_H
#define EGRESS_TESTS_UNIT_NET_DNS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "tests/fake/dns_message.h"

enum dns_tcp {
	DNS_TCP_ANSWER,
	DNS_TCP_BYTES,     /* the answer, one byte per segment */
	DNS_TCP_TRICKLE,   /* the longest length, then a byte every 20 ms */
	DNS_TCP_CUT,       /* closed after the length */
	DNS_TCP_EMPTY,     /* a message of length zero */
	DNS_TCP_CLOSE,     /* closed at once */
	DNS_TCP_SILENCE,
	DNS_TCP_WRONG_ID,  /* a misfit, and then the answer */
	DNS_TCP_LOWER_CASE,
	DNS_TCP_REFLECT,
	DNS_TCP_FORMERR,
	DNS_TCP_TRUNCATED,
};

#define DNS_SERVER_ACTS_MAX 80
#define DNS_SERVER_LOG_MAX 4096

struct dns_script {
	enum dns_act acts[DNS_SERVER_ACTS_MAX]; /* none: silence */
	size_t act_count;
	enum dns_tcp tcp;
	unsigned delay_ms;    /* before the acts */
	unsigned addr_count;  /* in an answer; 0: 1 */
	unsigned repeat;      /* the acts this many times; 0: once */
	bool on_v6;           /* at the start: listen on ::1 */
};

struct dns_asked {
	char name[256];       /* with dots, letters as they came */
	uint16_t id, type, from_port;
	bool over_tcp;
	bool has_opt;
};

struct dns_server;

/* Start with this script on a loopback port from 20000 on. */
struct dns_server *dns_server_start(const struct dns_script *script);
/* Stop, join and free; accepts NULL. */
void dns_server_stop(struct dns_server *s);
void dns_server_script(struct dns_server *s, const struct dns_script *script);
struct endpoint dns_server_at(const struct dns_server *s);
/* How many queries have come. */
size_t dns_server_asked_count(struct dns_server *s);
struct dns_asked dns_server_asked(struct dns_server *s, size_t index);

#endif
