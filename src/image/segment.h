/*
 * Open a compiled segment: compare seals and size, verify every offset, count, text and enumerator once, then share it by reference.
 * After segment_open succeeded, no reader needs to check a bound again. Hostile input: fuzzed.
 */
#ifndef EGRESS_IMAGE_SEGMENT_H
#define EGRESS_IMAGE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/text.h"
#include "image/layout.h"

struct segment;

/* The order of lease ids in a root: bytes, then the shorter one. */
int segment_compare_ids(struct text a, struct text b);

/*
 * Open from a sealed memfd (F_SEAL_SEAL, SHRINK, GROW, WRITE all set, else DENIED). Small segments are copied, large ones stay
 * mapped. Borrows `fd` for the call. INVALID with a sentence in *out_fault (static text) when it does not verify.
 */
enum err segment_open(int fd, struct segment **out_segment, const char **out_fault) ATTR_MUST_CHECK;
/* Verify and copy from memory (tools, tests, fuzzing). */
enum err segment_open_bytes(const void *bytes, size_t len, struct segment **out_segment,
			    const char **out_fault) ATTR_MUST_CHECK;
/* Seal bytes into a new memfd as segment_open wants it; the caller owns *out_fd. */
enum err segment_seal(const void *bytes, size_t len, int *out_fd) ATTR_MUST_CHECK;
struct segment *segment_ref(struct segment *s);
void segment_unref(struct segment *s);

enum layout_kind segment_kind(const struct segment *s);
size_t segment_size(const struct segment *s);
/* SHA-256 of its bytes, computed at open. */
const uint8_t *segment_id(const struct segment *s);
/* First record of a table and the number of records; NULL and 0 when empty. Borrowed while the segment lives. */
const void *segment_table(const struct segment *s, enum layout_table table, uint32_t *out_count);
struct text segment_text(const struct segment *s, struct layout_text t);
struct hash_key segment_hash_key(const struct segment *s);
/* The entry of the label index whose text is `name` (canonical); NULL if none. */
const struct layout_label_entry *segment_label_entry(const struct segment *s, struct text name);
/* The one record of LAYOUT_LEASES of a LEASE segment. */
const struct layout_lease *segment_lease(const struct segment *s);
/* The one record of LAYOUT_ROOT_INFO of a ROOT segment. */
const struct layout_root *segment_root(const struct segment *s);

#endif
