/*
 * A network for name servers over invented descriptors: the system calls of net/ares_link on one side, a script on the other,
 * the time of loop_fake between them. No system call is made. A closed number is given out again, as the kernel would.
 */
#ifndef EGRESS_TESTS_FAKE_DNS_NET_H
#define EGRESS_TESTS_FAKE_DNS_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "net/ares_link.h"
#include "net/loop.h"

struct dns_net;

/* A whole query has been sent on `fd`. The script may answer with the functions below. */
typedef void dns_net_query_fn(void *arg, struct dns_net *net, int fd, bool over_tcp, const struct endpoint *server,
			      const uint8_t *query, size_t len);

/* What the next calls do instead of working; errno values, 0: they work. */
struct dns_net_faults {
	int open, connect_udp, connect_tcp, send;
	bool half_sends;          /* TCP takes one byte at a time */
	uint64_t connect_tcp_ms;  /* EINPROGRESS, and connected after this */
};

/* Becomes the script of `loop`. NULL without memory. */
struct dns_net *dns_net_create(struct loop *loop, dns_net_query_fn *on_query, void *arg) ATTR_MUST_CHECK;
void dns_net_destroy(struct dns_net *net);
struct ares_link_sockets dns_net_sockets(struct dns_net *net);
struct dns_net_faults *dns_net_faults(struct dns_net *net);

/* Let bytes arrive on `fd` after a while: a datagram from `from`, or part of a stream (then `from` is NULL). */
void dns_net_arrive(struct dns_net *net, int fd, const struct endpoint *from, const uint8_t *bytes, size_t len, uint64_t after_ms);
/* Let the peer of `fd` close (code 0), or the socket fail with an errno value. */
void dns_net_end(struct dns_net *net, int fd, int code, uint64_t after_ms);

/* Its part of the loop's script (`net` as argument), for scripts that have other descriptors besides. */
unsigned dns_net_ready(void *net, int fd, unsigned what);
uint64_t dns_net_next_ms(void *net);
/* Is it one of the invented descriptors? */
bool dns_net_owns(int fd);

size_t dns_net_open_count(const struct dns_net *net);
/* Sockets opened since the start. */
size_t dns_net_opened_count(const struct dns_net *net);

#endif
