/*
 * The payload of `egress.keyset/1`: which key may say what, and which root keys, how many together, may change that. Also the bare root
 * of the `keys` file. Knows no signature.
 */
#ifndef EGRESS_DOCUMENT_KEYSET_DOC_H
#define EGRESS_DOCUMENT_KEYSET_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "document/json.h"

#define KEYSET_DOC_ROOT_MAX 8  /* keys: as many as one envelope has signatures */
#define KEYSET_DOC_KEYS_MAX 64

struct keyset_doc_key {
	const char *id;
	uint8_t public_key[32];
};

struct keyset_doc_root {
	uint64_t threshold; /* 1 to key_count */
	struct keyset_doc_key keys[KEYSET_DOC_ROOT_MAX]; /* ids and keys differ */
	size_t key_count;
};

enum keyset_doc_role { KEYSET_DOC_BEAT, KEYSET_DOC_MANIFEST, KEYSET_DOC_LEASE, KEYSET_DOC_ROLE_COUNT };

struct keyset_doc {
	uint64_t version, exp_ms, epoch_min;
	struct keyset_doc_root root;
	const struct keyset_doc_key *keys;
	const unsigned *key_roles; /* beside keys: 1 << role; 0: none */
	size_t key_count;
};

/* Read the payload; everything in *out_doc lives in the faults' arena. INVALID with faults. */
enum err keyset_doc_read(struct text payload, struct json_faults *faults, struct keyset_doc *out_doc) ATTR_MUST_CHECK;
/* Read a bare root: {"threshold":2,"keys":{"r1":"…"}}. Likewise. */
enum err keyset_doc_root_read(struct text text, struct json_faults *faults, struct keyset_doc_root *out_root) ATTR_MUST_CHECK;
/* The key `id` if it holds `role`; NULL if not. */
const uint8_t *keyset_doc_find(const struct keyset_doc *doc, const char *id, enum keyset_doc_role role);

#endif
