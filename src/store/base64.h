/* base64 with padding (RFC 4648 section 4), as the stores' gateways speak it. Strict: one text for one value. */
#ifndef EGRESS_STORE_BASE64_H
#define EGRESS_STORE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/text.h"

/* Bytes that the encoding of `len` bytes takes, without a final zero. */
#define BASE64_LEN(len) (((len) + 2) / 3 * 4)

/* Write BASE64_LEN(len) characters and a zero byte. */
void base64_encode(const void *bytes, size_t len, char *out_text);
/* Decode into at most text.len / 4 * 3 bytes; false on any other character, missing padding or stray bits. */
bool base64_decode(struct text text, void *out_bytes, size_t *out_len) ATTR_MUST_CHECK;

#endif
