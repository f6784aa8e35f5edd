/*
 * What a TLS ClientHello says about its target, read across records and segments (RFC 8446 sections 4.1.2 and 5.1, RFC 6066
 * section 3). Reads a copy of nothing: the caller keeps the bytes and asks again when there are more. Decides nothing.
 */
#ifndef EGRESS_WIRE_TLS_HELLO_H
#define EGRESS_WIRE_TLS_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/cursor.h"
#include "base/dname.h"

/* Most bytes of a first flight that are held for judging: handshake message and record headers. */
#define TLS_HELLO_MAX 65536

enum tls_hello_sni {
	TLS_HELLO_SNI_ABSENT,
	TLS_HELLO_SNI_NAME,    /* exactly one host name, canonical, in `name` */
	TLS_HELLO_SNI_INVALID, /* one name, but none we accept: literal, final dot, bad octets, too long */
};

struct tls_hello {
	enum tls_hello_sni sni;
	struct dname name;       /* sni == NAME */
	bool offers_tls12;       /* version 1.2 or later is offered */
	bool has_ech;            /* encrypted_client_hello (0xfe0d) is present, GREASE or real */
	bool offers_early_data;
	size_t len;              /* bytes from the start of the input to the end of the last record of the hello */
};

/* Why a hello was BAD: not TLS at all (first byte), or TLS that breaks the rules. */
enum tls_hello_fault { TLS_HELLO_NOT_TLS, TLS_HELLO_MALFORMED };

/*
 * Read a ClientHello from the first `len` bytes of the guest's stream. MORE while it is incomplete and shorter than
 * TLS_HELLO_MAX. Records may split it anywhere; any other record type between its fragments, an empty or second server
 * name, a repeated extension and bytes that no length accounts for are BAD. *out_fault is written for BAD only.
 */
enum parsed tls_hello_read(const uint8_t *bytes, size_t len, struct tls_hello *out_hello,
			   enum tls_hello_fault *out_fault) ATTR_MUST_CHECK;

enum tls_first_answer {
	TLS_ANSWER_SERVER_HELLO,
	TLS_ANSWER_RETRY_REQUEST, /* HelloRetryRequest: a second ClientHello follows (RFC 8446 section 4.1.4) */
	TLS_ANSWER_OTHER,         /* an alert or anything else: the server's own affair */
};

/* Tell what the server's first record is. MORE until the random of a ServerHello is there; never BAD. */
enum parsed tls_hello_read_answer(const uint8_t *bytes, size_t len, enum tls_first_answer *out_answer)
	ATTR_MUST_CHECK;

/*
 * Find the second ClientHello behind legal records of the guest (change_cipher_spec, early data) that may precede it.
 * As tls_hello_read; out_hello->len counts those records too.
 */
enum parsed tls_hello_read_second(const uint8_t *bytes, size_t len, struct tls_hello *out_hello,
				  enum tls_hello_fault *out_fault) ATTR_MUST_CHECK;

/* A fatal alert record (7 bytes): access_denied (49) or unrecognized_name (112). */
#define TLS_ALERT_ACCESS_DENIED 49
#define TLS_ALERT_UNRECOGNIZED_NAME 112
size_t tls_hello_put_alert(uint8_t description, uint8_t out_bytes[7]);

#endif
