/* Hellos of any shape for tests, right or wrong: extensions are appended one by one, then a message
 * and records are made. */
#ifndef EGRESS_TESTS_WIRE_HELLO_BUILD_H
#define EGRESS_TESTS_WIRE_HELLO_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hello_build {
	uint16_t version; /* legacy_version */
	uint8_t session_len;
	uint16_t suites_len; /* bytes */
	uint8_t methods_len;
	bool without_block; /* no extension block at all */
	int block_lie;	    /* added to the length of the extension block */
	int message_lie;    /* added to the length of the message */
	size_t extensions_len;
	uint8_t extensions[70000];
};

/* Start a hello that is right and has no extension yet. */
void hello_build_init(struct hello_build *b);
/* Append an extension with this data. */
void hello_build_extension(struct hello_build *b, uint16_t type, const void *data, size_t len);
/* Append a server_name extension with one host name of any octets. */
void hello_build_name(struct hello_build *b, const char *name, size_t len);
/* Write the handshake message with its header; returns its length. */
size_t hello_build_message(const struct hello_build *b, uint8_t *out_message);
/* Cut a message into records of at most `fragment` bytes; returns the length. */
size_t hello_build_records(const uint8_t *message, size_t len, size_t fragment, uint8_t *out_bytes);
/* What a browser of 2025 sends: GREASE everywhere, ALPN, a post-quantum key share, ECH GREASE; one
 * record. */
size_t hello_build_browser(const char *name, uint8_t *out_bytes);

#endif
