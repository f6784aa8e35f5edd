/* Table of sniffers: the first bytes of a flow to what they are, or "need more". Judges nothing. */
#ifndef EGRESS_WIRE_SNIFF_H
#define EGRESS_WIRE_SNIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/cursor.h"

enum sniff_kind {
	SNIFF_TLS,   /* starts like a TLS handshake record: 16 03 */
	SNIFF_HTTP,  /* starts like an HTTP/1 request line */
	SNIFF_SSH,   /* starts with SSH-2.0- */
	SNIFF_OTHER, /* none of these */
	SNIFF_COUNT,
};

/* Tell what the first bytes are; MORE only while every kind but OTHER is still undecided and len is below 24. Never BAD. */
enum parsed sniff_first_bytes(const uint8_t *bytes, size_t len, enum sniff_kind *out_kind)
	ATTR_MUST_CHECK;

#endif
