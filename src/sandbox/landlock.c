/*
 * Landlock by raw calls (Linux 5.13): no library of ours has them, and libc's headers lag behind kernels, so the structs are here.
 * Promises that after it only the listed paths can be opened, in the listed ways. Knows nothing of system call filters.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "sandbox/sandbox_internal.h"

struct ruleset {
	uint64_t handled_fs;
	uint64_t handled_net; /* since version 4 */
	uint64_t scoped;      /* since version 6 */
};

struct path_rule {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

struct port_rule {
	uint64_t allowed;
	uint64_t port;
};

enum rule_kind { RULE_PATH = 1, RULE_PORT = 2 };

/* The kernel's bits: 13 file rights in version 1, one more each in versions 2, 3 and 5. */
#define FS_EXECUTE (1u << 0)
#define FS_WRITE_FILE (1u << 1)
#define FS_READ_FILE (1u << 2)
#define FS_READ_DIR (1u << 3)
#define FS_REMOVE_DIR (1u << 4)
#define FS_REMOVE_FILE (1u << 5)
#define FS_MAKE_DIR (1u << 7)
#define FS_MAKE_REG (1u << 8)
#define FS_MAKE_SOCK (1u << 9)
#define FS_REFER (1u << 13)    /* version 2 */
#define FS_TRUNCATE (1u << 14) /* version 3 */
#define NET_BIND_TCP (1u << 0)
#define SCOPE_ABSTRACT_UNIX (1u << 0)
#define SCOPE_SIGNAL (1u << 1)

#define RIGHTS_READ (FS_READ_FILE | FS_READ_DIR)
#define RIGHTS_WRITE                                                                                     \
	(RIGHTS_READ | FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG |      \
	 FS_MAKE_SOCK | FS_REFER | FS_TRUNCATE)
#define RIGHTS_OF_FILES (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE) /* others are for folders */

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);

	return abi > 0 ? (int)abi : 0;
}

static uint64_t known_rights(int abi)
{
	static const unsigned counts[] = { 0, 13, 14, 15, 15, 16 };

	return (1u << counts[abi < 5 ? abi : 5]) - 1;
}

static enum err allow_path(int ruleset_fd, const char *path, uint64_t rights, bool may_be_absent)
{
	struct path_rule rule = { .allowed = rights, .parent_fd = open(path, O_PATH | O_CLOEXEC) };
	struct stat st;
	enum err e = ERR_SYSTEM;

	if (rule.parent_fd < 0 && errno == ENOENT && may_be_absent)
		return ERR_OK;
	if (rule.parent_fd < 0) {
		log_line(LOG_LEVEL_ERROR, "event=sandbox_path path=\"%s\" errno=%d why=\"%s\" uid=%u", path, errno,
			 errno == EACCES ? "this user must be able to reach it: move it, open its folders, or set user" : "cannot be opened",
			 (unsigned)geteuid());
		return errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM;
	}
	if (fstat(rule.parent_fd, &st) != 0)
		goto out;
	if (!S_ISDIR(st.st_mode))
		rule.allowed &= RIGHTS_OF_FILES;
	if (syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PATH, &rule, 0) == 0)
		e = ERR_OK;
out:
	close(rule.parent_fd);
	return e;
}

static enum err allow_role_paths(int ruleset_fd, enum sandbox_role role, uint64_t known)
{
#define PATH(sym, rights, path) { SANDBOX_ROLE_##sym, RIGHTS_##rights, path },
	static const struct {
		enum sandbox_role role;
		uint64_t rights;
		const char *path;
	} rows[] = {
#include "sandbox/roles.def"
	};
	enum err e = ERR_OK;

	for (size_t i = 0; i < ARRAY_LEN(rows) && e == ERR_OK; i++) {
		if (rows[i].role == role)
			e = allow_path(ruleset_fd, rows[i].path, rows[i].rights & known, true);
	}
	return e;
}

static enum err allow_option_paths(int ruleset_fd, const char *const paths[SANDBOX_PATHS_MAX], uint64_t rights)
{
	enum err e = ERR_OK;

	for (size_t i = 0; i < SANDBOX_PATHS_MAX && paths[i] != NULL && e == ERR_OK; i++)
		e = allow_path(ruleset_fd, paths[i], rights, false);
	return e;
}

/* Port 0 is the kernel's choice: what a socket with a source address of ours asks for before it connects. */
static enum err allow_any_free_port(int ruleset_fd)
{
	struct port_rule rule = { .allowed = NET_BIND_TCP, .port = 0 };

	return syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PORT, &rule, 0) == 0 ? ERR_OK : ERR_SYSTEM;
}

enum err landlock_enter(const struct sandbox_options *options, int abi)
{
	uint64_t known = known_rights(abi);
	bool limits_ports = abi >= 4 && !sandbox_role_row(options->role)->listens;
	struct ruleset ruleset = {
		.handled_fs = known,
		.handled_net = limits_ports ? NET_BIND_TCP : 0,
		.scoped = abi >= 6 ? SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL : 0,
	};
	/* Older kernels take a longer struct as long as what they do not know is zero. */
	int fd = (int)syscall(SYS_landlock_create_ruleset, &ruleset, sizeof(ruleset), 0);
	enum err e;

	if (fd < 0)
		return ERR_SYSTEM;
	e = allow_role_paths(fd, options->role, known);
	if (e == ERR_OK)
		e = allow_option_paths(fd, options->read_paths, RIGHTS_READ & known);
	if (e == ERR_OK)
		e = allow_option_paths(fd, options->write_paths, RIGHTS_WRITE & known);
	if (e == ERR_OK && limits_ports)
		e = allow_any_free_port(fd);
	if (e == ERR_OK && syscall(SYS_landlock_restrict_self, fd, 0) != 0)
		e = ERR_SYSTEM;
	close(fd);
	return e;
}
