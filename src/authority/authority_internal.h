/* The authority's structs, shared by authority.c (order of things, manifests, beats) and authority_lease.c (one lease). */
#ifndef EGRESS_AUTHORITY_AUTHORITY_INTERNAL_H
#define EGRESS_AUTHORITY_AUTHORITY_INTERNAL_H

#include <sys/stat.h>

#include "authority/authority.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/htab.h"
#include "base/list.h"
#include "compiler/library.h"
#include "document/envelope.h"
#include "document/keyset_doc.h"
#include "document/lease_doc.h"
#include "document/manifest_doc.h"

#define AUTHORITY_NAME_LEN 80

/* Which state of a file was seen. */
struct authority_stamp {
	uint64_t device, inode, size;
	int64_t mtime_ns, ctime_ns;
};

/* A file of policy and the document that it became; while neither changes, nothing is read again. */
struct authority_source {
	struct htab_node node, id_node; /* in the cell's sources; in the round's ids */
	struct authority_stamp in, out;
	char id[LEASE_DOC_ID_MAX + 1];
	uint64_t rev, renew_at_ms;
	uint8_t sha256[32];             /* of the payload */
	uint8_t (*rulesets)[32];        /* owned */
	size_t ruleset_count;
	bool is_seen;                   /* in this round */
	char *path;                     /* owned; below the policy root */
};

struct authority_cell {
	struct list_node node;
	char name[LEASE_DOC_ID_MAX + 1];
	char leases[LEASE_DOC_ID_MAX + 16]; /* below the policy root */
	int out;                        /* owned */
	struct htab sources;            /* of struct authority_source, owned */
	uint8_t context[32];            /* of what all of them depend on */
	uint64_t manifest_seq;          /* 0: none written yet */
	uint8_t manifest_sha256[32];
};

struct authority {
	struct authority_options options;
	int root, out;                  /* owned */
	struct hash_key hash;
	struct list cells;              /* of struct authority_cell, owned */
	uint64_t beat_seq, keyset_version, epoch;
	uint64_t published_keyset;      /* that all cells have */
};

/* One round of publishing; from `cell` on, of one cell. */
struct authority_round {
	struct authority *a;
	struct arena arena;             /* of the round */
	struct keyring ring;
	struct json_faults json_faults;
	struct keyset_doc keyset;
	struct text keyset_bytes;
	const struct keyring_key *beat, *manifest, *lease; /* in the ring; NULL: none that the keyset knows */
	struct library library;
	uint64_t wall_ms;
	const struct authority_changes *changes; /* NULL: every file is looked at */
	struct fault_list *faults;
	struct authority_counts counts;

	struct authority_cell *cell;
	struct arena cell_arena, scratch; /* of the cell; of one lease */
	struct manifest_doc_entry *entries;
	size_t entry_count, entry_room;
	struct htab ids, rulesets;      /* leases so far; rulesets that are in use */
};

/* What stands at `name` below `folder` now; false: nothing. */
bool authority_look(int folder, const char *name, struct authority_stamp *out_stamp);
enum err authority_write(struct authority_round *r, int folder, enum envelope_type type, const char *name, struct text payload,
			 const struct keyring_key *key) ATTR_MUST_CHECK;
/* The number after `last`: the time, or one more. */
uint64_t authority_next_number(uint64_t last, uint64_t wall_ms);

/* A ruleset is in use; false: it is not in the cell's folder. */
bool authority_use_ruleset(struct authority_round *r, const uint8_t sha256[32]);
bool authority_is_ruleset_used(const struct authority_round *r, const uint8_t sha256[32]);
/* It is in use, and written if it is not there yet. */
enum err authority_keep_ruleset(struct authority_round *r, struct text payload, uint8_t out_sha256[32]) ATTR_MUST_CHECK;
/* Add the lease of a file to the round's entries and write it if it differs. INVALID, NOT_FOUND, LIMIT: faulty. */
enum err authority_keep_lease(struct authority_round *r, const char *path) ATTR_MUST_CHECK;
/* A file is gone, or nothing of it may be trusted. */
void authority_forget_source(struct authority_cell *cell, struct authority_source *source);

#endif
