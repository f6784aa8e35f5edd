/* The three mechanisms, each behind one function, and what the sanitizers need. For this folder and its tests alone. */
#ifndef EGRESS_SANDBOX_SANDBOX_INTERNAL_H
#define EGRESS_SANDBOX_SANDBOX_INTERNAL_H

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "sandbox/sandbox.h"

struct sandbox_role_row {
	const char *word;
	const char *user; /* becomes this when root and the options name nobody */
	bool listens;     /* may bind a TCP port of its choice */
};

const struct sandbox_role_row *sandbox_role_row(enum sandbox_role role);

/* Whom privdrop_enter would make us. */
enum err privdrop_choose(const char *user, const char *default_user, uid_t *out_uid, gid_t *out_gid) ATTR_MUST_CHECK;
/* Become `user` when root, drop all groups and capabilities, and see that there is no way back. */
enum err privdrop_enter(const char *user, const char *default_user) ATTR_MUST_CHECK;

/* The running kernel's Landlock version; 0 when it has none or it is switched off. */
int landlock_abi(void);
/* Forbid this thread and all it starts every file but the role's and the options', and TCP ports the role may not have. */
enum err landlock_enter(const struct sandbox_options *options, int abi) ATTR_MUST_CHECK;

/* Can this kernel end a process for a forbidden call (Linux 4.14)? */
bool seccomp_is_supported(void);
/* Filter the system calls of all threads. Without Landlock the daemon may open nothing at all. */
enum err seccomp_enter(enum sandbox_role role, bool has_landlock) ATTR_MUST_CHECK;

/* In sanitizer builds: open the report file now and switch the leak check off. Otherwise nothing. */
void sanitized_enter(void);

#endif
