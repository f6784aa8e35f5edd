/*
 * Control for a fleet without one: from a policy root (leases/, presets/, rulesets/) to the signed documents of one cell in a folder, which
 * a sidecar reads as it is or a server hands on. Blocking; called by egressctl, and in time by a sidecar that serves.
 */
#ifndef EGRESS_AUTHORITY_AUTHORITY_H
#define EGRESS_AUTHORITY_AUTHORITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "authority/keyring.h"
#include "base/attr.h"
#include "base/err.h"

#define AUTHORITY_BEAT_LIFETIME_MS 30000

struct fault_list; /* config/fault.h, by way of the compiler */

struct authority_options {
	const char *keys;  /* folder of private keys; all borrowed for good */
	const char *root;  /* policy root */
	const char *out;   /* folder of documents; has a keyset */
	const char *cell;  /* NULL: every folder of root/cells is one, and becomes out/cells/CELL */
	uint64_t lifetime_ms; /* of leases that say none; renewed at half of it */
	bool report_allowed;
};

struct authority;

/* INVALID, DENIED (no key of a role that the keyset knows) or SYSTEM, with a sentence. */
enum err authority_open(const struct authority_options *options, char out_reason[KEYRING_REASON_MAX],
			struct authority **out_authority) ATTR_MUST_CHECK;
/* Accepts NULL. */
void authority_close(struct authority *a);

struct authority_counts {
	size_t leases, written, withdrawn, faulty;
};
/* Names of files, whatever their folder, that may have changed since the last round. */
struct authority_changes {
	const char *const *names; /* borrowed for the call */
	size_t count;
};
/*
 * Read the policy and write what differs from what is there, of leases only those in `changes` and those that came or went (NULL: all): rulesets, leases, then the manifest. A faulty lease is withdrawn (its faults go to
 * `faults`): no proxy would take it, and the last good one is not what was meant.
 */
enum err authority_publish(struct authority *a, uint64_t wall_ms, const struct authority_changes *changes, struct fault_list *faults, struct authority_counts *out_counts,
			   char out_reason[KEYRING_REASON_MAX]) ATTR_MUST_CHECK;
/* Was a keyset signed since the last publishing? No beat should name it before cells have it, and leases signed by a key that it knows. */
bool authority_has_new_keyset(struct authority *a);
/* Say that control is alive, and which manifest is current. */
enum err authority_beat(struct authority *a, uint64_t wall_ms, char out_reason[KEYRING_REASON_MAX]) ATTR_MUST_CHECK;

#endif
