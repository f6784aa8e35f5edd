/*
 * The signed form in which documents travel: one header line, then the payload exactly as signed (Ed25519 over the DSSE pre-authentication
 * encoding of type and payload). Reads and writes it; knows no role, no key's owner and no payload. Hostile input: fuzzed.
 */
#ifndef EGRESS_DOCUMENT_ENVELOPE_H
#define EGRESS_DOCUMENT_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "document/json.h"

#define ENVELOPE_HEADER_MAX 1024 /* bytes, without the line's end */
#define ENVELOPE_PAYLOAD_MAX JSON_DOCUMENT_MAX
#define ENVELOPE_MAX (ENVELOPE_HEADER_MAX + 1 + ENVELOPE_PAYLOAD_MAX)
#define ENVELOPE_SIGNATURES_MAX 8
#define ENVELOPE_KEY_ID_MAX 64   /* characters */

enum envelope_type { ENVELOPE_KEYSET, ENVELOPE_BEAT, ENVELOPE_MANIFEST, ENVELOPE_LEASE, ENVELOPE_RULESET, ENVELOPE_TYPE_COUNT };

struct envelope_signature {
	char key_id[ENVELOPE_KEY_ID_MAX + 1];
	uint8_t bytes[64];
};

struct envelope {
	enum envelope_type type;
	struct envelope_signature signatures[ENVELOPE_SIGNATURES_MAX]; /* no two of one key; none is possible */
	size_t signature_count;
	struct text payload; /* borrowed from what was read */
};

/* What is wrong with one, in the order of the checks. */
enum envelope_fault { ENVELOPE_GOOD, ENVELOPE_BAD_SIZE, ENVELOPE_BAD_HEADER, ENVELOPE_UNKNOWN_TYPE };

/* Take an envelope apart; says nothing about who signed it. Anything but GOOD writes nothing, NO_MEMORY counts as BAD_HEADER. */
enum envelope_fault envelope_read(struct text bytes, struct envelope *out_envelope) ATTR_MUST_CHECK;
/* Is its nth signature this key's? */
bool envelope_is_signed_by(const struct envelope *e, size_t nth, const uint8_t public_key[32]) ATTR_MUST_CHECK;

/* A key to sign with. */
struct envelope_signer {
	const char *key_id;         /* borrowed */
	const uint8_t *private_key; /* borrowed, 32 bytes */
};
/* Sign a payload; the caller frees *out_bytes (alloc_free). LIMIT: payload or header too long; INVALID: a key id that is none. */
enum err envelope_write(enum envelope_type type, struct text payload, const struct envelope_signer *signers, size_t signer_count,
			uint8_t **out_bytes, size_t *out_len) ATTR_MUST_CHECK;

/* "egress.lease/1", … */
const char *envelope_type_name(enum envelope_type type);
/* "lease", …: for metrics and logs. */
const char *envelope_type_word(enum envelope_type type);

#endif
