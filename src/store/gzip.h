/* One gzip member out of bytes, and whether bytes are one; the only includer of zlib. */
#ifndef EGRESS_STORE_GZIP_H
#define EGRESS_STORE_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

#define GZIP_INPUT_MAX (8u << 20) /* bytes */

/* The caller owns *out_bytes (alloc_free). LIMIT, NO_MEMORY. */
enum err gzip_pack(const void *bytes, size_t len, uint8_t **out_bytes, size_t *out_len) ATTR_MUST_CHECK;
/* One whole member and nothing behind it, of at most `max` bytes unpacked? Keeps none of them; no memory is a no. */
bool gzip_is_member(const void *bytes, size_t len, size_t max);

#endif
