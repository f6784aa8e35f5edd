/* The sidecar's role: its own folders, names and control connections; no program, no other file. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempt.h"
#include "sandbox/sandbox_internal.h"

static char root[64]; /* with policy/, state/ and other/ */
static pid_t parent_pid;
static int abi;       /* of Landlock, asked before it is forbidden to ask */

static const char *below(const char *name)
{
	static char paths[4][128];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
	return path;
}

static void write_file(const char *name)
{
	FILE *file = fopen(below(name), "w");

	cr_assert_not_null(file);
	fputs("text", file);
	fclose(file);
	cr_assert_eq(chmod(below(name), 0666), 0);
}

static void prepare(void)
{
	static const char *const folders[] = { "policy", "state", "other" };

	attempt_init();
	abi = landlock_abi();
	parent_pid = getpid();
	strcpy(root, "/tmp/egress-sandbox.XXXXXX");
	cr_assert_not_null(mkdtemp(root));
	cr_assert_eq(chmod(root, 0755), 0);
	/* Permissions that forbid nothing: what is refused below is refused by the sandbox. */
	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		cr_assert_eq(mkdir(below(folders[i]), 0777) | chmod(below(folders[i]), 0777), 0);
	write_file("policy/a.policy");
	write_file("other/secret");
}

static void clean_up(void)
{
	static const char *const names[] = { "policy/a.policy", "other/secret", "state/moved", "state/made", "state/socket",
					     "state/folder", "policy", "state", "other", "" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)remove(below(names[i]));
}

static int attempt_here(attempt_fn *what)
{
	char policy[128], state[128];
	struct sandbox_options options = { .role = SANDBOX_ROLE_SIDECAR };

	snprintf(policy, sizeof(policy), "%s", below("policy"));
	snprintf(state, sizeof(state), "%s", below("state"));
	options.read_paths[0] = policy;
	options.write_paths[0] = state;
	return attempt_with(&options, what);
}

static void read_policy_alone(void)
{
	int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	struct stat st;

	REQUIRE(open(below("policy/a.policy"), O_RDONLY | O_CLOEXEC) >= 0);
	REQUIRE(open(below("policy"), O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0);
	REQUIRE(stat(below("policy/a.policy"), &st) == 0);
	REQUIRE(watch >= 0 && inotify_add_watch(watch, below("policy"), IN_CLOSE_WRITE) >= 0);
	if (abi == 0)
		return;
	REQUIRE(open(below("policy/a.policy"), O_WRONLY | O_CLOEXEC) < 0 && errno == EACCES);
	REQUIRE(open(below("policy/new"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 && errno == EACCES);
	REQUIRE(open(below("other/secret"), O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
	REQUIRE(open("/usr/bin/env", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
	REQUIRE(unlink(below("other/secret")) < 0 && errno == EACCES);
}

static void keep_state(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = open(below("state/made"), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	REQUIRE(fd >= 0 && write(fd, "text", 4) == 4 && fdatasync(fd) == 0 && ftruncate(fd, 2) == 0);
	REQUIRE(rename(below("state/made"), below("state/moved")) == 0 && unlink(below("state/moved")) == 0);
	REQUIRE(mkdir(below("state/folder"), 0700) == 0 && rmdir(below("state/folder")) == 0);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", below("state/socket"));
	REQUIRE(listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(listener, 1) == 0);
	REQUIRE(chmod(at.sun_path, 0666) == 0 && unlink(at.sun_path) == 0);
	REQUIRE(mknod(below("state/device"), S_IFCHR | 0600, 0) < 0);
}

/* A port that was free a moment ago. */
static in_port_t free_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	REQUIRE(bind(fd, (struct sockaddr *)&at, len) == 0 && getsockname(fd, (struct sockaddr *)&at, &len) == 0);
	REQUIRE(close(fd) == 0);
	return at.sin_port;
}

static void open_listeners(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = free_port(), .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int segment = memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	REQUIRE(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 8) == 0);
	REQUIRE(segment >= 0 && write(segment, "x", 1) == 1 && fcntl(segment, F_ADD_SEALS, F_SEAL_WRITE) == 0);
}

static void look_up_a_name(void)
{
	struct addrinfo *list = NULL;
	int result = getaddrinfo("localhost", "443", NULL, &list);

	REQUIRE(result == 0 || result == EAI_NONAME || result == EAI_AGAIN);
}

static void ask_for_executable_memory(void)
{
	REQUIRE(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EPERM);
}

static void reach_an_abstract_socket(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	socklen_t len;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "egress-sandbox-%d", (int)parent_pid);
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(at.sun_path + 1));
	if (getpid() == parent_pid) {
		cr_assert_eq(bind(fd, (struct sockaddr *)&at, len) | listen(fd, 1), 0);
		return;
	}
	REQUIRE(connect(fd, (struct sockaddr *)&at, len) < 0 && errno == EPERM);
}

Test(sidecar, reaches_no_socket_that_is_on_no_path, .init = prepare, .fini = clean_up)
{
	reach_an_abstract_socket();
	if (abi >= 6)
		cr_expect_eq(attempt_here(reach_an_abstract_socket), 0);
}

Test(sidecar, reads_what_it_was_given_and_writes_its_state_alone, .init = prepare, .fini = clean_up)
{
	cr_expect_eq(attempt_here(read_policy_alone), 0);
}

Test(sidecar, keeps_files_and_sockets_in_its_folders, .init = prepare, .fini = clean_up)
{
	/* mknod is no call of its: the child must get to it and die there. */
	int status = attempt_here(keep_state);

	cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%#x", (unsigned)status);
}

Test(sidecar, opens_listeners_seals_segments_and_finds_names, .init = prepare, .fini = clean_up)
{
	cr_expect_eq(attempt_here(open_listeners), 0);
	cr_expect_eq(attempt_here(look_up_a_name), 0);
	cr_expect_eq(attempt_here(ask_for_executable_memory), 0);
}

static void run_a_program(void)
{
	char *const arguments[] = { "/bin/true", NULL };

	execv("/bin/true", arguments);
}

static void make_a_process(void)
{
	if (fork() == 0)
		_exit(0);
}

static void make_a_packet_socket(void)
{
	socket(AF_PACKET, SOCK_RAW, 0);
}

static void make_an_audit_socket(void)
{
	socket(AF_NETLINK, SOCK_RAW, 9);
}

Test(sidecar, starts_no_program_and_opens_no_odd_socket, .init = prepare, .fini = clean_up)
{
	static attempt_fn *const rows[] = { run_a_program, make_a_process, make_a_packet_socket, make_an_audit_socket };

	for (size_t i = 0; i < ARRAY_LEN(rows) && seccomp_is_supported(); i++) {
		int status = attempt_here(rows[i]);

		cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "row %zu: %#x", i, (unsigned)status);
	}
}

static void enter_with_a_missing_folder(void)
{
	struct sandbox_options options = { .role = SANDBOX_ROLE_SIDECAR, .read_paths = { "/no/such/folder" } };
	struct sandbox_report report;

	REQUIRE(sandbox_enter(&options, &report) == ERR_NOT_FOUND);
}

Test(sidecar, does_not_start_without_a_folder_that_it_was_given, .init = prepare, .fini = clean_up)
{
	if (abi > 0)
		cr_expect_eq(attempt_outside(enter_with_a_missing_folder), 0);
}
