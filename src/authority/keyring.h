/*
 * The private keys of an authority: one file each, NAME.key, in one folder; its name says the role ("root-1", "beat-2", …). Also the
 * keyset that follows from them. Public keys of the root stand in root.json, which every proxy has as its `keys` file.
 */
#ifndef EGRESS_AUTHORITY_KEYRING_H
#define EGRESS_AUTHORITY_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"
#include "document/envelope.h"

#define KEYRING_MAX 64
#define KEYRING_REASON_MAX 256

struct keyring_key {
	const char *id; /* in the arena: the file's name without ".key" */
	uint8_t private_key[32], public_key[32];
};

/* Wipe with keyring_finish. */
struct keyring {
	struct arena arena;
	struct keyring_key keys[KEYRING_MAX]; /* by id */
	size_t count;
};

/* Read the keys of `folder`, those of the root only when they are asked for. INVALID and SYSTEM with a sentence. Finish it also on failure. */
enum err keyring_open(struct keyring *ring, const char *folder, bool with_root, char out_reason[KEYRING_REASON_MAX]) ATTR_MUST_CHECK;
void keyring_finish(struct keyring *ring);
/* Has a key this role ("root", "beat", "manifest", "lease")? */
bool keyring_has_role(const struct keyring_key *key, const char *role);
/* The last key of a role by id, to sign with; NULL: none is here. */
const struct keyring_key *keyring_newest(const struct keyring *ring, const char *role);

/* Make one more key of a role, numbered above those that are known here; its id goes to out_id. The folder is made when it is missing. */
enum err keyring_add(const char *folder, const char *role, char out_id[ENVELOPE_KEY_ID_MAX + 1],
		     char out_reason[KEYRING_REASON_MAX]) ATTR_MUST_CHECK;
/* Is there a root.json? */
bool keyring_has_root(const char *folder);
/* Write root.json: the last `count` root keys by id, `threshold` of which must sign. */
enum err keyring_write_root(const char *folder, size_t count, size_t threshold, char out_reason[KEYRING_REASON_MAX]) ATTR_MUST_CHECK;

#define KEYRING_PROPOSED "keyset.proposed"

struct keyring_keyset {
	uint64_t epoch_min, exp_ms;
	uint64_t version; /* out: of what was signed */
	size_t missing;   /* out: signatures that are wanted still */
};
/*
 * Sign the next keyset into `out`/keyset: every key of the folder in the role of its name, the root of root.json, signed by all root keys
 * that are here. DENIED: fewer of them than the old and the new root ask for.
 */
enum err keyring_sign(const char *folder, const char *out, struct keyring_keyset *keyset, char out_reason[KEYRING_REASON_MAX]) ATTR_MUST_CHECK;
/* The same into `out`/keyset.proposed, with as many signatures as can be given here, or none. */
enum err keyring_propose(const char *folder, const char *out, struct keyring_keyset *keyset, char out_reason[KEYRING_REASON_MAX])
	ATTR_MUST_CHECK;
/*
 * Add signatures of the root keys of `folder`, which needs nothing else, to what is proposed; with the last one it becomes `out`/keyset. DENIED: no
 * key that may sign and has not; INVALID: it does not follow the keyset that is there.
 */
enum err keyring_countersign(const char *folder, const char *out, struct keyring_keyset *keyset, char out_reason[KEYRING_REASON_MAX])
	ATTR_MUST_CHECK;

#endif
