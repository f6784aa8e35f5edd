/*
 * Revocations by hand, kept on disk: a lease stays revoked until control says something newer about it. Loaded whole at start, replaced
 * whole and flushed at every change. Knows no daemon.
 */
#ifndef EGRESS_SOURCE_STICKY_H
#define EGRESS_SOURCE_STICKY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

#define STICKY_MAX 4096 /* revocations */
#define STICKY_PRINT_LEN 32

struct sticky;

/* What a lease looked like: its revision (0: it says none) and a digest of what it was read from. */
struct sticky_state {
	uint64_t rev;
	uint8_t print[STICKY_PRINT_LEN];
};

/* Read `folder`/revoked; no such file is an empty list. INVALID when it cannot be understood: nobody knows then who is revoked. */
enum err sticky_open(const char *folder, struct sticky **out_sticky) ATTR_MUST_CHECK;
void sticky_close(struct sticky *s);
size_t sticky_count(const struct sticky *s);
/* The nth revoked lease's id; borrowed until the next change. */
const char *sticky_at(const struct sticky *s, size_t index);
bool sticky_holds(const struct sticky *s, const char *lease);
/* Revoke from `state` on. SYSTEM: held in memory, but not on disk; LIMIT, INVALID, NO_MEMORY: not held. */
enum err sticky_add(struct sticky *s, const char *lease, const struct sticky_state *state) ATTR_MUST_CHECK;
/*
 * What the lease looks like now. Lifted (true) when the revision is higher, or when it says none and its text is another; the disk
 * must have it first, so a failing disk lifts nothing.
 */
bool sticky_review(struct sticky *s, const char *lease, const struct sticky_state *state);

#endif
