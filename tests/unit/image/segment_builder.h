/*
 * For tests: policy written as short lines to segments and snapshots, by its own hand and not by the compiler, so that the two halves of the
 * treaty check each other. A fault in the text aborts. The lines are described above built_segment.
 */
#ifndef EGRESS_TESTS_SEGMENT_BUILDER_H
#define EGRESS_TESTS_SEGMENT_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include "image/segment.h"
#include "image/snapshot.h"

#define BUILT_SEGMENTS_MAX 256
#define BUILT_BYTES_MAX (256u << 10)

/* Every segment that was built, found by id. */
struct built_store {
	struct segment *segments[BUILT_SEGMENTS_MAX]; /* counted */
	size_t count;
};

void built_store_init(struct built_store *store);
void built_store_finish(struct built_store *store);

/*
 * Build a segment of `kind` and keep it in the store; the reference stays the store's. One statement a line, words split by blanks:
 *   allow SCHEME://HOST[:PORTS] [as ID] [pin=…] [ech=refuse] [country=DE,FR] [asn=1,2] [report]      allow any
 *   deny HOST[:PORTS] [as ID] [report]
 *   exception PREFIX for HOST     exception name for HOST     exception PREFIX for address
 *   lease ID   tenant/run/class TEXT   rev N   nbf N   exp N   state WORD   scope WORD   claims WORD   option WORD…   places country=…,asn=…
 *   require WORD…   listener NAME   source PREFIX   token TEXT [exp N]
 *   ruleset … end       (its lines between; a segment of its own, named by this lease)
 */
struct segment *built_segment(struct built_store *store, enum layout_kind kind, const char *text);
/* As built_segment, to bytes that were not verified; returns their number. */
size_t built_bytes(struct built_store *store, enum layout_kind kind, const char *text,
		   uint8_t out_bytes[BUILT_BYTES_MAX]);
/* A snapshot of a ceiling and leases; `leases` ends with NULL and need not be in order. */
struct snapshot *built_snapshot(struct built_store *store, uint64_t version, uint32_t flags,
				const char *ceiling, const char *const *leases);
/* As built_snapshot, to the bytes of the root. */
size_t built_root_bytes(struct built_store *store, uint64_t version, uint32_t flags,
			const char *ceiling, const char *const *leases,
			uint8_t out_bytes[BUILT_BYTES_MAX]);
/* What a root says of one lease. */
struct built_named {
	const char *id;
	const struct segment *segment; /* NULL: it is gone */
};
/* The bytes of a root over segments that exist; with a base, `named` are changes. */
size_t built_root_naming(uint64_t version, uint64_t base, uint32_t flags, const struct segment *ceiling,
			 const struct built_named *named, size_t count, uint8_t out_bytes[BUILT_BYTES_MAX]);
/* Finds in the store that is `arg`. */
struct segment *built_find(void *arg, const uint8_t id[LAYOUT_ID_LEN]);

#endif
