/* The payload of `egress.manifest/1`: the complete set of leases of a cell as one hash; and how that hash is made. */
#ifndef EGRESS_DOCUMENT_MANIFEST_DOC_H
#define EGRESS_DOCUMENT_MANIFEST_DOC_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/sink.h"
#include "base/text.h"
#include "document/json.h"

#define MANIFEST_DOC_LEASES_MAX 100000
#define MANIFEST_DOC_ENTRY_MAX 105 /* bytes of one under the hash */

struct manifest_doc {
	uint64_t epoch, seq, iat_ms, leases;
	const char *cell;
	uint8_t root[32];
};

/* What the hash says about one lease. */
struct manifest_doc_entry {
	const char *id; /* borrowed */
	uint64_t rev;
	uint8_t sha256[32]; /* of the payload */
};

/* Read the payload; everything in *out_doc lives in the faults' arena. INVALID with faults. */
enum err manifest_doc_read(struct text payload, struct json_faults *faults, struct manifest_doc *out_doc) ATTR_MUST_CHECK;
/* What the hash is made over, one entry after the other. */
void manifest_doc_put(struct sink *out, const struct manifest_doc_entry *entry);
/* SHA-256 over id, a zero byte, the revision in eight bytes, big end first, and the digest of each. `entries` in byte order of their ids. */
enum err manifest_doc_root(const struct manifest_doc_entry *entries, size_t count, uint8_t out_root[32]) ATTR_MUST_CHECK;

#endif
