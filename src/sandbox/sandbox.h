/*
 * Shut the door behind a started program: drop privilege, restrict files, filter system calls, in that order, before the first
 * thread. What each role may still do stands in roles.def. What the kernel lacks is said in the log, never in silence.
 */
#ifndef EGRESS_SANDBOX_SANDBOX_H
#define EGRESS_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

enum sandbox_role { SANDBOX_ROLE_DAEMON, SANDBOX_ROLE_SIDECAR };

#define SANDBOX_PATHS_MAX 16

struct sandbox_options {
	enum sandbox_role role;
	const char *user;         /* borrowed; name or number to become; NULL or "": the role's own when root, else stay who we are */
	const char *read_paths[SANDBOX_PATHS_MAX];  /* borrowed, beyond the role's; must exist; NULL ends the list */
	const char *write_paths[SANDBOX_PATHS_MAX]; /* the same; files below may be made, changed and removed, sockets too */
};

/* Which mechanisms are in force now. */
struct sandbox_report {
	bool unprivileged;   /* not root, and cannot become it again */
	int landlock_abi;    /* 0: this kernel has none */
	bool seccomp;
};

/* Whom sandbox_enter would make us, so that files can be given to them before. DENIED, NOT_FOUND as there. */
enum err sandbox_identity(const struct sandbox_options *options, uid_t *out_uid, gid_t *out_gid) ATTR_MUST_CHECK;

/*
 * Enter, with one thread running. Any failure but a missing kernel feature is an error, and the caller must not go on: DENIED (it
 * would leave us root, or somebody we may not become), NOT_FOUND (no such user or path), INVALID (threads run already), SYSTEM.
 * Clears the environment, its bytes too: pointers from getenv read as "" afterwards.
 */
enum err sandbox_enter(const struct sandbox_options *options, struct sandbox_report *out_report) ATTR_MUST_CHECK;

#endif
