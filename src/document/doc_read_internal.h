/* What the readers of documents share: ids, numbers, digests, the type word. For src/document only. */
#ifndef EGRESS_DOCUMENT_DOC_READ_INTERNAL_H
#define EGRESS_DOCUMENT_DOC_READ_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "document/json.h"

#define DOC_WHOLE_MAX 9007199254740991u  /* what every JSON reader keeps exactly (RFC 8259 section 6) */
#define DOC_TIME_MAX_MS 253402300799999u /* the end of the year 9999 */
#define DOC_ID_MAX 64                    /* characters of an id */

/* Add a fault with a fixed sentence at `v`. */
void doc_fault(struct json_faults *faults, const struct json_value *v, const char *code, const char *sentence);
/* Letters, digits and, after the first, - _ . : ; "" with or without a fault when it is not there. */
const char *doc_id(struct json_faults *faults, const struct json_value *object, const char *name);
/* A number; 0 when absent or faulty. */
uint64_t doc_number(struct json_faults *faults, const struct json_value *object, const char *name, uint64_t min, uint64_t max);
/* `v` must be base64url of 32 bytes; true when out_bytes was written. */
bool doc_bytes32(struct json_faults *faults, const struct json_value *v, uint8_t out_bytes[32]);
/* The "typ" member must say `expected`. */
void doc_type(struct json_faults *faults, const struct json_value *top, const char *expected);
/* Zeroed room in the faults' arena; NULL notes the lack. */
void *doc_take(struct json_faults *faults, size_t count, size_t size);
/* OK, INVALID or NO_MEMORY, from what was added since `before`. */
enum err doc_outcome(const struct json_faults *faults, size_t before);

#endif
