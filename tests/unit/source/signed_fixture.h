/* Signed documents for the tests of src/sidecar: a root of three, one key for each role, and a clock that stands where we put it. */
#ifndef EGRESS_TESTS_UNIT_SOURCE_SIGNED_FIXTURE_H
#define EGRESS_TESTS_UNIT_SOURCE_SIGNED_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "document/envelope.h"
#include "document/manifest_doc.h"

#define SIGNED_CELL "c-1"
#define SIGNED_NOW_MS 1796051200000ULL

/* Which key: those of the root, of the roles, and one that no keyset knows. */
enum signed_key { SIGNED_R1, SIGNED_R2, SIGNED_R3, SIGNED_BEAT, SIGNED_MANIFEST, SIGNED_LEASE, SIGNED_STRANGER, SIGNED_KEY_COUNT };

/* An envelope; bytes owned by the fixture until signed_forget. */
struct text signed_envelope(enum envelope_type type, const char *payload, const enum signed_key *keys, size_t key_count);
/* Free all envelopes. */
void signed_forget(void);
const char *signed_public(enum signed_key key);
/* The `keys` file: three root keys, two of which must sign. */
const char *signed_root(void);

/* Payloads, printed into a static buffer each; eight of them at a time. */
const char *signed_keyset(uint64_t version, uint64_t epoch_min, uint64_t exp_ms);
const char *signed_manifest(const char *cell, uint64_t epoch, uint64_t seq, const struct manifest_doc_entry *entries, size_t count);
const char *signed_beat(const char *cell, uint64_t epoch, uint64_t seq, uint64_t iat_ms, uint64_t keyset, uint64_t manifest_seq,
			const char *manifest_payload);
const char *signed_lease(const char *cell, const char *lease, uint64_t epoch, uint64_t rev, const char *rule);
/* What a manifest says of a lease payload. */
struct manifest_doc_entry signed_entry(const char *lease, uint64_t rev, const char *payload);

/* Both clocks stand still until moved. */
void signed_clock_start(void);
void signed_clock_move_ms(uint64_t by_ms);
void signed_clock_step_wall_ms(int64_t by_ms);

#endif
