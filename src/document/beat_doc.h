/* The payload of `egress.beat/1`: control was alive at a moment, and which manifest of each cell of a group was current. */
#ifndef EGRESS_DOCUMENT_BEAT_DOC_H
#define EGRESS_DOCUMENT_BEAT_DOC_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "document/json.h"

#define BEAT_DOC_GROUPS 32
#define BEAT_DOC_CELLS_MAX 4096

struct beat_doc_cell {
	const char *id;
	uint64_t seq;               /* of its manifest */
	uint8_t manifest_sha256[32]; /* of the manifest's payload */
};

struct beat_doc {
	uint64_t epoch, group, seq, iat_ms, exp_ms;
	uint64_t keyset;            /* version that is current */
	const struct beat_doc_cell *cells;
	size_t cell_count;
};

/* Read the payload; everything in *out_doc lives in the faults' arena. INVALID with faults. */
enum err beat_doc_read(struct text payload, struct json_faults *faults, struct beat_doc *out_doc) ATTR_MUST_CHECK;
/* The beat group of a cell: the first byte of the SHA-256 of its id, modulo the number of groups. */
unsigned beat_doc_group_of(const char *cell);
/* The cell `id`; NULL if the beat does not name it. */
const struct beat_doc_cell *beat_doc_find(const struct beat_doc *doc, const char *id);

#endif
