/*
 * From root to somebody who can do nothing special, with no way back. Promises that afterwards no user id is 0, no group but one's
 * own and no capability is left, and that no program could give them back. Knows no role.
 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "sandbox/sandbox_internal.h"

#define NOBODY 65534 /* where even nobody has no name */

struct identity {
	uid_t uid;
	gid_t gid;
};

static bool is_given(const char *user)
{
	return user != NULL && user[0] != '\0';
}

/* By name or number; a number without an account is its own group. */
static enum err find_user(const char *user, struct identity *out_identity)
{
	struct passwd account, *found = NULL;
	char strings[8192];
	uint64_t number;
	bool is_number = text_to_u64(text_of(user), UINT32_MAX - 1, &number);

	if (is_number)
		(void)getpwuid_r((uid_t)number, &account, strings, sizeof(strings), &found);
	else
		(void)getpwnam_r(user, &account, strings, sizeof(strings), &found);
	if (found != NULL)
		*out_identity = (struct identity){ found->pw_uid, found->pw_gid };
	else if (is_number)
		*out_identity = (struct identity){ (uid_t)number, (gid_t)number };
	else
		return ERR_NOT_FOUND;
	return ERR_OK;
}

static enum err choose(const char *user, const char *default_user, struct identity *out_identity)
{
	struct identity own = { geteuid(), getegid() };
	struct identity wanted = { NOBODY, NOBODY };
	enum err e;

	if (is_given(user)) {
		e = find_user(user, &wanted);
		if (e != ERR_OK)
			return e;
	} else if (own.uid == 0) {
		(void)find_user(default_user, &wanted);
	} else {
		wanted = own;
	}
	if (wanted.uid == 0)
		return ERR_DENIED;
	if (own.uid != 0 && wanted.uid != own.uid)
		return ERR_DENIED;
	*out_identity = own.uid == 0 ? wanted : own;
	return ERR_OK;
}

enum err privdrop_choose(const char *user, const char *default_user, uid_t *out_uid, gid_t *out_gid)
{
	struct identity to;
	enum err e = choose(user, default_user, &to);

	if (e != ERR_OK)
		return e;
	*out_uid = to.uid;
	*out_gid = to.gid;
	return ERR_OK;
}

static bool drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return syscall(SYS_capset, &header, none) == 0;
}

static bool is_unprivileged(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3];
	uid_t real, effective, saved;

	if (getresuid(&real, &effective, &saved) != 0 || real == 0 || effective == 0 || saved == 0)
		return false;
	if (syscall(SYS_capget, &header, held) != 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(held); i++) {
		if (held[i].effective != 0 || held[i].permitted != 0 || held[i].inheritable != 0)
			return false;
	}
	return setresuid((uid_t)-1, 0, (uid_t)-1) != 0;
}

enum err privdrop_enter(const char *user, const char *default_user)
{
	struct identity to;
	bool was_root = geteuid() == 0;
	enum err e = choose(user, default_user, &to);

	if (e != ERR_OK)
		return e;
	/* Groups while we still may, the user last: after it nothing of this is allowed any more. */
	if (was_root && setgroups(0, NULL) != 0)
		return ERR_SYSTEM;
	if (setresgid(to.gid, to.gid, to.gid) != 0 || setresuid(to.uid, to.uid, to.uid) != 0)
		return ERR_SYSTEM;
	if (!drop_capabilities() || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return ERR_SYSTEM;
#ifndef EGRESS_SANITIZED
	/* No core file and no debugger of the same user sees tokens or keys. A sanitizer looks at its own process that way. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return ERR_SYSTEM;
#endif
	return is_unprivileged() ? ERR_OK : ERR_DENIED;
}
