/*
 * What may never go back, on disk: the keyset's version and root, the epoch, the last beat and manifest of our cell in one small file,
 * replaced whole; the last revision of each lease, and the manifest again, in floor_log. Knows no signature; accept says what to raise.
 * While they cannot be read or written nothing may be believed (HALT).
 */
#ifndef EGRESS_SOURCE_FLOORS_H
#define EGRESS_SOURCE_FLOORS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "document/keyset_doc.h"
#include "source/floor_mark.h"

struct floors_state {
	uint8_t anchor[32];    /* SHA-256 of the `keys` file that the root below comes from; zeros: no keyset yet */
	struct keyset_doc_root root; /* of the last keyset; ids are owned by the floors */
	uint64_t epoch;
	struct floor_mark keyset, beat, manifest;
};

struct floors;

/*
 * Read `folder`/floors and its log; no such file: everything is zero. A file of another cell keeps keyset and epoch. What cannot be understood or
 * written is no failure here but floors_is_broken. SYSTEM: no such folder.
 */
enum err floors_open(const char *folder, const char *cell, struct floors **out_floors) ATTR_MUST_CHECK;
/* Writes what is due. Accepts NULL. */
void floors_close(struct floors *f);
const struct floors_state *floors_state(const struct floors *f);
/* Unreadable since start, or unwritable at the last try. */
bool floors_is_broken(const struct floors *f);

/* A keyset was verified: on disk, flushed, before this returns. SYSTEM: nothing changed. The root's ids are copied. */
enum err floors_take_keyset(struct floors *f, const uint8_t anchor[32], const struct keyset_doc_root *root,
			    const struct floor_mark *keyset, uint64_t epoch) ATTR_MUST_CHECK;
/* Likewise an epoch that documents have moved on to. */
enum err floors_take_epoch(struct floors *f, uint64_t epoch) ATTR_MUST_CHECK;
/* In memory at once, on disk with the next floors_flush. */
void floors_take_beat(struct floors *f, const struct floor_mark *beat);
/* In the log before it returns, as a lease's revision: else broken. */
void floors_take_manifest(struct floors *f, const struct floor_mark *manifest);
/* See floor_log_lease, floor_log_take_lease. */
const struct floor_mark *floors_lease(const struct floors *f, const char *id);
enum err floors_take_lease(struct floors *f, const char *id, const struct floor_mark *mark, uint64_t exp_ms,
			   uint64_t said_ms) ATTR_MUST_CHECK;
/* Write what is due; call each second. */
void floors_flush(struct floors *f);

#endif
