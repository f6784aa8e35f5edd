/*
 * SOCKS5 messages (RFC 1928, RFC 1929): greeting, user/password, request, replies. Takes whole messages only: an
 * incomplete one consumes nothing. Knows no lease, no policy, no socket.
 */
#ifndef EGRESS_WIRE_SOCKS5_H
#define EGRESS_WIRE_SOCKS5_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/attr.h"
#include "base/cursor.h"
#include "base/text.h"

#define SOCKS5_VERSION 0x05
#define SOCKS5_METHOD_NONE 0x00
#define SOCKS5_METHOD_PASSWORD 0x02
#define SOCKS5_METHOD_NO_ACCEPTABLE 0xff
#define SOCKS5_COMMAND_CONNECT 0x01
#define SOCKS5_COMMAND_BIND 0x02
#define SOCKS5_COMMAND_UDP_ASSOCIATE 0x03

/* The longest message a client may send before the tunnel: greeting 257, credentials 513, request 262. */
#define SOCKS5_HANDSHAKE_MAX 1032
#define SOCKS5_REPLY_MAX 22

/* Why a message was BAD. */
enum socks5_fault {
	SOCKS5_FAULT_NONE,
	SOCKS5_FAULT_VERSION,      /* first byte is not 05 (01 for credentials) */
	SOCKS5_FAULT_MALFORMED,    /* reserved byte not zero, … */
	SOCKS5_FAULT_ADDRESS_TYPE, /* not 01, 03 or 04 */
};

struct socks5_greeting {
	uint8_t method_count;
	bool offers_none, offers_password;
};

struct socks5_credentials {
	struct text user, password; /* borrowed from the cursor's bytes; may hold any octet, may be empty */
};

enum socks5_host { SOCKS5_HOST_ADDRESS, SOCKS5_HOST_NAME };

struct socks5_request {
	uint8_t command;      /* as sent; the caller refuses all but CONNECT */
	enum socks5_host host;
	struct addr addr;     /* host == ADDRESS */
	struct text name;     /* host == NAME: borrowed, any octets, may be empty */
	uint16_t port;        /* host order; may be 0 */
};

/* Take one message from the front of `in`. MORE and BAD consume nothing; *out_fault is written for BAD only. */
enum parsed socks5_take_greeting(struct cursor *in, struct socks5_greeting *out_greeting,
				 enum socks5_fault *out_fault) ATTR_MUST_CHECK;
enum parsed socks5_take_credentials(struct cursor *in, struct socks5_credentials *out_credentials,
				    enum socks5_fault *out_fault) ATTR_MUST_CHECK;
enum parsed socks5_take_request(struct cursor *in, struct socks5_request *out_request,
				enum socks5_fault *out_fault) ATTR_MUST_CHECK;

/* Write the 2-byte method selection. */
size_t socks5_put_method(uint8_t method, uint8_t out_bytes[2]);
/* Write the 2-byte RFC 1929 status: 00 success, 01 failure. */
size_t socks5_put_auth_status(bool success, uint8_t out_bytes[2]);
/* Write a reply: 10 bytes with ATYP 01, or 22 with ATYP 04 when `bound` is IPv6; NULL means 0.0.0.0:0. */
size_t socks5_put_reply(uint8_t reply, const struct endpoint *bound,
			uint8_t out_bytes[SOCKS5_REPLY_MAX]);

/* What a client that does not speak SOCKS5 should hear, by its first bytes; empty for TLS and anything unknown. */
struct text socks5_foreign_answer(const uint8_t *first, size_t len);

#endif
