/*
 * The order of entering, and what is said about it. Promises that whoever returns from sandbox_enter with success is not root, has no
 * environment, and is behind every mechanism that the kernel has. Knows no mechanism itself. Called once by each daemon's boot.
 */
#include "sandbox/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/log.h"
#include "sandbox/sandbox_internal.h"

const struct sandbox_role_row *sandbox_role_row(enum sandbox_role role)
{
#define ROLE(sym, word, user, listens) [SANDBOX_ROLE_##sym] = { word, user, listens },
	static const struct sandbox_role_row rows[] = {
#include "sandbox/roles.def"
	};

	return &rows[role];
}

/* Landlock covers the calling thread and those it starts later, never those that run already. */
static bool is_alone(void)
{
#ifdef EGRESS_SANITIZED
	return true; /* ThreadSanitizer runs a thread of its own */
#else
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	unsigned count = 0;

	if (tasks == NULL)
		return true;
	while ((entry = readdir(tasks)) != NULL)
		count += entry->d_name[0] != '.';
	closedir(tasks);
	return count <= 1;
#endif
}

/* The bytes too: they stay readable on the stack, and in /proc, after clearenv. */
static enum err clear_environment(void)
{
	for (char **at = environ; at != NULL && *at != NULL; at++)
		crypto_wipe(*at, strlen(*at));
	return clearenv() == 0 ? ERR_OK : ERR_SYSTEM;
}

static enum err failed(const char *mechanism, enum err e)
{
	int error = errno;

	log_line(LOG_LEVEL_ERROR, "event=sandbox_failed mechanism=%s why=\"%s\" errno=%d", mechanism, err_text(e), error);
	errno = error;
	return e;
}

static void say_absent(const char *mechanism, const char *effect)
{
	log_line(LOG_LEVEL_WARN, "event=sandbox_absent mechanism=%s why=\"this kernel has none\" effect=\"%s\"", mechanism, effect);
}

enum err sandbox_identity(const struct sandbox_options *options, uid_t *out_uid, gid_t *out_gid)
{
	return privdrop_choose(options->user, sandbox_role_row(options->role)->user, out_uid, out_gid);
}

enum err sandbox_enter(const struct sandbox_options *options, struct sandbox_report *out_report)
{
	const struct sandbox_role_row *row = sandbox_role_row(options->role);
	struct sandbox_report report = { .landlock_abi = landlock_abi(), .seccomp = seccomp_is_supported() };
	enum err e;

	if (!is_alone())
		return failed("threads", ERR_INVALID);
	sanitized_enter();
	e = privdrop_enter(options->user, row->user);
	if (e != ERR_OK)
		return failed("user", e);
	report.unprivileged = true;
	e = clear_environment();
	if (e != ERR_OK)
		return failed("environment", e);
	if (report.landlock_abi > 0)
		e = landlock_enter(options, report.landlock_abi);
	else
		say_absent("landlock", "files are protected by their permissions alone");
	if (e != ERR_OK)
		return failed("landlock", e);
	if (report.seccomp)
		e = seccomp_enter(options->role, report.landlock_abi > 0);
	else
		say_absent("seccomp", "every system call is possible");
	if (e != ERR_OK)
		return failed("seccomp", e);
	log_line(LOG_LEVEL_INFO, "event=sandbox role=%s uid=%u landlock=%d seccomp=%s", row->word, (unsigned)geteuid(),
		 report.landlock_abi, report.seccomp ? "on" : "absent");
	*out_report = report;
	return ERR_OK;
}
