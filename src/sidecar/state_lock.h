/*
 * One sidecar to a state folder: floors and revocations of two would overwrite each other, and both would believe their own. The kernel
 * lets go when the holder dies, however it dies, so that a successor never waits for what nobody holds.
 */
#ifndef EGRESS_SIDECAR_STATE_LOCK_H
#define EGRESS_SIDECAR_STATE_LOCK_H

#include "base/attr.h"
#include "base/err.h"

#define STATE_LOCK_NAME "lock"

/*
 * Hold `folder`/lock until the descriptor is closed; our process id is in it. AGAIN: another holds it, *out_holder is who wrote itself in
 * (0: cannot be told). SYSTEM with errno: it cannot be made.
 */
enum err state_lock_take(const char *folder, int *out_fd, long *out_holder) ATTR_MUST_CHECK;

#endif
