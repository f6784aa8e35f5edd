/*
 * The door from the inside. Every attempt is made by a child of its own that has entered a role; the test looks at how it ended.
 * Expectations that need Landlock hold only where the kernel has it, and the report must say so truthfully.
 */
#include "sandbox/sandbox.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempt.h"
#include "base/alloc.h"
#include "base/crypto.h"
#include "sandbox/sandbox_internal.h"

static int made_before[2];    /* a pipe */
static int sealed_fd;         /* a memfd with "sealed" in it */
static int listener_fd;       /* on loopback */
static struct sockaddr_in listener_address;
static pid_t parent_pid;
static int abi; /* of Landlock, asked before it is forbidden to ask */

static void prepare(void)
{
	socklen_t len = sizeof(listener_address);

	attempt_init();
	abi = landlock_abi();
	parent_pid = getpid();
	cr_assert_eq(crypto_init(), ERR_OK);
	cr_assert_eq(pipe2(made_before, O_CLOEXEC), 0);
	sealed_fd = memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_eq(write(sealed_fd, "sealed", 6), 6);
	cr_assert_eq(fcntl(sealed_fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	listener_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	listener_address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	cr_assert_eq(bind(listener_fd, (struct sockaddr *)&listener_address, len), 0);
	cr_assert_eq(listen(listener_fd, 8), 0);
	cr_assert_eq(getsockname(listener_fd, (struct sockaddr *)&listener_address, &len), 0);
}

/* --- what must end the daemon --- */

static void do_execve(void)
{
	char *const arguments[] = { "/bin/true", NULL };

	execv("/bin/true", arguments);
}

static void do_fork(void)
{
	if (fork() == 0)
		_exit(0);
}

static void do_ptrace(void)
{
	ptrace(PTRACE_TRACEME, 0, 0, 0);
}

static void do_mount(void)
{
	syscall(SYS_mount, "none", "/", "tmpfs", 0, NULL);
}

static void do_unix_socket(void)
{
	socket(AF_UNIX, SOCK_STREAM, 0);
}

static void do_netlink_socket(void)
{
	socket(AF_NETLINK, SOCK_RAW, 0);
}

static void do_raw_socket(void)
{
	socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

static void do_packet_socket(void)
{
	socket(AF_PACKET, SOCK_DGRAM, 0);
}

static void do_sctp_socket(void)
{
	socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
}

static void do_listen(void)
{
	listen(listener_fd, 8);
}

static void do_kill(void)
{
	kill(getpid(), 0);
}

static void do_signal_the_parent(void)
{
	syscall(SYS_tgkill, parent_pid, parent_pid, 0);
}

static void do_allow_core_files(void)
{
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static void do_become_root(void)
{
	syscall(SYS_setresuid, 0, 0, 0);
}

static void do_bpf(void)
{
	syscall(SYS_bpf, 0, NULL, 0);
}

static void do_io_uring(void)
{
	syscall(SYS_io_uring_setup, 1, NULL);
}

static void do_unshare(void)
{
	syscall(SYS_unshare, 0x10000000);
}

static void do_keyctl(void)
{
	syscall(SYS_keyctl, 0, 0, 0, 0, 0);
}

static void do_chroot(void)
{
	syscall(SYS_chroot, "/");
}

static void do_executable_memory(void)
{
	mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void do_make_memory_executable(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(page, 4096, PROT_READ | PROT_EXEC);
}

static void do_open_to_write(void)
{
	open("/tmp", O_WRONLY | O_TMPFILE, 0600);
}

static void do_create(void)
{
	open("/tmp/egress-sandbox-never", O_RDONLY | O_CREAT, 0600);
}

static void do_unlink(void)
{
	unlink("/tmp/egress-sandbox-never");
}

static void do_memfd_create(void)
{
	memfd_create("x", 0);
}

static void do_own_signals(void)
{
	fcntl(made_before[0], F_SETOWN, getpid());
}

static void do_process_vm_read(void)
{
	syscall(SYS_process_vm_readv, parent_pid, NULL, 0, NULL, 0, 0);
}

static void do_ioctl(void)
{
	syscall(SYS_ioctl, made_before[0], 0x541B, NULL);
}

static void do_userfaultfd(void)
{
	syscall(SYS_userfaultfd, 0);
}

#ifdef __x86_64__
static void do_x32_call(void)
{
	syscall(0x40000000 | SYS_getpid);
}

static void do_i386_call(void)
{
	long result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
}
#endif

static void do_execve_in_a_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, (void *(*)(void *))(void (*)(void))do_execve, NULL) == 0)
		pthread_join(thread, NULL);
}

Test(daemon, dies_at_every_call_that_it_does_not_need, .init = prepare)
{
	static const struct {
		const char *name;
		attempt_fn *what;
	} rows[] = {
#define ROW(name) { #name, name }
		ROW(do_execve), ROW(do_fork), ROW(do_ptrace), ROW(do_mount), ROW(do_unix_socket),
		ROW(do_netlink_socket), ROW(do_raw_socket), ROW(do_packet_socket), ROW(do_sctp_socket),
		ROW(do_listen), ROW(do_kill), ROW(do_become_root), ROW(do_bpf), ROW(do_io_uring),
		ROW(do_unshare), ROW(do_keyctl), ROW(do_chroot), ROW(do_executable_memory),
		ROW(do_make_memory_executable), ROW(do_open_to_write), ROW(do_create), ROW(do_unlink),
		ROW(do_memfd_create), ROW(do_own_signals), ROW(do_process_vm_read), ROW(do_ioctl),
		ROW(do_userfaultfd), ROW(do_execve_in_a_thread), ROW(do_signal_the_parent),
		ROW(do_allow_core_files),
#ifdef __x86_64__
		ROW(do_x32_call), ROW(do_i386_call),
#endif
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int status = attempt(SANDBOX_ROLE_DAEMON, rows[i].what);

		if (seccomp_is_supported())
			cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%s ended with %#x", rows[i].name,
				  (unsigned)status);
	}
}

/* --- what it must still be able to do --- */

static void open_anything(void)
{
	static const char *const paths[] = { "/", "/etc/passwd", "/dev/null", "/proc/self/status", "/proc/self/maps", "/tmp",
					     ".", "/dev/urandom", "/etc/resolv.conf", "/proc/self/exe" };

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		REQUIRE(open(paths[i], O_RDONLY | O_CLOEXEC) < 0);
		REQUIRE(errno == EACCES);
	}
}

static void *open_in_a_thread(void *arg)
{
	*(bool *)arg = open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES;
	return NULL;
}

static void new_threads_are_covered(void)
{
	pthread_t threads[4];
	bool denied[4] = { false };

	for (int i = 0; i < 4; i++)
		REQUIRE(pthread_create(&threads[i], NULL, open_in_a_thread, &denied[i]) == 0);
	for (int i = 0; i < 4; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0 && denied[i]);
}

Test(daemon, opens_no_path_in_any_thread, .init = prepare)
{
	cr_expect_eq(attempt(SANDBOX_ROLE_DAEMON, open_anything), 0);
	cr_expect_eq(attempt(SANDBOX_ROLE_DAEMON, new_threads_are_covered), 0);
}

static void use_received_memory(void)
{
	char path[32], bytes[6];
	const char *mapped;
	int fd;

	REQUIRE(fcntl(sealed_fd, F_GET_SEALS) == (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
	mapped = mmap(NULL, 6, PROT_READ, MAP_SHARED, sealed_fd, 0);
	REQUIRE(mapped != MAP_FAILED && memcmp(mapped, "sealed", 6) == 0);
	REQUIRE(mmap(NULL, 6, PROT_READ | PROT_WRITE, MAP_SHARED, sealed_fd, 0) == MAP_FAILED);
	if (abi == 0)
		return;
	/* By name, as a library that knows only paths opens it. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", sealed_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	REQUIRE(fd >= 0 && pread(fd, bytes, 6, 0) == 6 && memcmp(bytes, "sealed", 6) == 0);
}

static void use_the_network(void)
{
	int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	int udp = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int one = 1, server, epoll;
	struct epoll_event event = { .events = EPOLLIN };
	char byte = 0;

	REQUIRE(client >= 0 && udp >= 0);
	REQUIRE(bind(client, (struct sockaddr *)&from, sizeof(from)) == 0);
	REQUIRE(connect(client, (struct sockaddr *)&listener_address, sizeof(listener_address)) == 0 || errno == EINPROGRESS);
	server = accept4(listener_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	REQUIRE(server >= 0 && setsockopt(server, IPPROTO_TCP, 1, &one, sizeof(one)) == 0);
	REQUIRE(send(server, "x", 1, MSG_NOSIGNAL) == 1);
	epoll = made_before[0]; /* any number: adding must be refused by the kernel, not by the filter */
	REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, client, &event) < 0 && errno == EINVAL);
	REQUIRE(recv(client, &byte, 1, MSG_WAITALL) == 1 || errno == EAGAIN);
	REQUIRE(splice(server, NULL, made_before[1], NULL, 16, SPLICE_F_NONBLOCK) < 0 && errno == EAGAIN);
	REQUIRE(shutdown(server, SHUT_WR) == 0 && close(server) == 0);
}

static void use_memory_and_time(void)
{
	struct timespec now;
	uint8_t digest[32];
	char *block = alloc_array(64, 1 << 20);

	REQUIRE(block != NULL);
	block[(64 << 20) - 1] = 1;
	alloc_free(block);
	REQUIRE(syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now) == 0);
	REQUIRE(crypto_sha256("abc", 3, digest) == ERR_OK && digest[0] == 0xba);
	REQUIRE(crypto_random(digest, sizeof(digest)) == ERR_OK);
	REQUIRE(getrandom(digest, sizeof(digest), 0) == sizeof(digest));
	REQUIRE(sysconf(_SC_PHYS_PAGES) > 0);
}

static void *count_up(void *counter)
{
	for (int i = 0; i < 1000; i++)
		__atomic_fetch_add((int *)counter, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void use_threads(void)
{
	pthread_t threads[8];
	uint8_t bytes[8];
	int counter = 0;

	/* Its flags cannot be seen, so it must look as if it did not exist. */
	REQUIRE(syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		REQUIRE(pthread_create(&threads[i], NULL, count_up, &counter) == 0);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	REQUIRE(counter == 8000 && crypto_random(bytes, sizeof(bytes)) == ERR_OK);
}

Test(daemon, can_do_its_work, .init = prepare)
{
	cr_expect_eq(attempt(SANDBOX_ROLE_DAEMON, use_received_memory), 0);
	cr_expect_eq(attempt(SANDBOX_ROLE_DAEMON, use_the_network), 0);
	cr_expect_eq(attempt(SANDBOX_ROLE_DAEMON, use_memory_and_time), 0);
	cr_expect_eq(attempt(SANDBOX_ROLE_DAEMON, use_threads), 0);
}

static void abort_in_thread(void)
{
	abort();
}

Test(daemon, an_assertion_ends_it_as_an_abort_and_not_as_a_forbidden_call, .init = prepare)
{
	int status = attempt(SANDBOX_ROLE_DAEMON, abort_in_thread);

	cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%#x", (unsigned)status);
}

static void bind_a_chosen_port(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(61234), .sin_addr = { htonl(INADDR_LOOPBACK) } };

	REQUIRE(bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 && errno == EACCES);
}

Test(daemon, cannot_choose_a_port, .init = prepare)
{
	if (abi >= 4)
		cr_expect_eq(attempt(SANDBOX_ROLE_DAEMON, bind_a_chosen_port), 0);
}

static void be_nobody(void)
{
	REQUIRE(getuid() != 0 && geteuid() != 0);
	REQUIRE(getenv("PATH") == NULL && getenv("EGRESS_SECRET") == NULL);
	REQUIRE(environ == NULL || *environ == NULL);
}

Test(daemon, has_no_environment_and_is_not_root, .init = prepare)
{
	setenv("EGRESS_SECRET", "s3cret", 1);
	cr_expect_eq(attempt(SANDBOX_ROLE_DAEMON, be_nobody), 0);
}

static const char *secret;

static void look_for_the_secret(void)
{
	REQUIRE(secret[0] == '\0' && secret[1] == '\0');
}

Test(daemon, the_bytes_of_the_environment_are_gone_too, .init = prepare)
{
	setenv("EGRESS_SECRET", "s3cret", 1);
	secret = getenv("EGRESS_SECRET");
	cr_expect_eq(attempt(SANDBOX_ROLE_DAEMON, look_for_the_secret), 0);
}

/* --- the report, and refusals to enter --- */

static void report_the_truth(void)
{
	struct sandbox_options options = { .role = SANDBOX_ROLE_DAEMON };
	struct sandbox_report report = { 0 };
	int own_abi = landlock_abi();
	bool seccomp = seccomp_is_supported();

	REQUIRE(sandbox_enter(&options, &report) == ERR_OK);
	REQUIRE(report.unprivileged && report.landlock_abi == own_abi && report.seccomp == seccomp);
	REQUIRE(getpid() > 0);
}

Test(sandbox, the_report_says_what_is_in_force, .init = attempt_init)
{
	cr_expect_eq(attempt_outside(report_the_truth), 0);
}

static enum err enter_as(const char *user)
{
	struct sandbox_options options = { .role = SANDBOX_ROLE_DAEMON, .user = user };
	struct sandbox_report report;

	return sandbox_enter(&options, &report);
}

static void stay_root(void)
{
	REQUIRE(enter_as("root") == ERR_DENIED && enter_as("0") == ERR_DENIED);
}

static void become_who_is_not_there(void)
{
	static const char *const nobody[] = { "no-such-user-here", "-1", "4294967295", "4294967297", " 4711" };

	for (size_t i = 0; i < ARRAY_LEN(nobody); i++)
		REQUIRE(enter_as(nobody[i]) == ERR_NOT_FOUND);
}

static void become_a_number(void)
{
	REQUIRE(enter_as("4711") == ERR_OK);
	REQUIRE(getuid() == 4711 && getgid() == 4711);
}

static void stay_who_we_are(void)
{
	if (geteuid() == 0)
		REQUIRE(setresgid(4712, 4712, 4712) == 0 && setresuid(4712, 4712, 4712) == 0);
	REQUIRE(enter_as("") == ERR_OK);
	REQUIRE(geteuid() != 0);
}

static void become_somebody_else_without_right(void)
{
	if (geteuid() == 0)
		REQUIRE(setresgid(4712, 4712, 4712) == 0 && setresuid(4712, 4712, 4712) == 0);
	REQUIRE(enter_as("4713") == ERR_DENIED && enter_as("root") == ERR_DENIED);
}

Test(sandbox, never_stays_root_and_becomes_only_who_it_may, .init = attempt_init)
{
	cr_expect_eq(attempt_outside(become_who_is_not_there), 0);
	cr_expect_eq(attempt_outside(stay_root), 0);
	cr_expect_eq(attempt_outside(stay_who_we_are), 0);
	cr_expect_eq(attempt_outside(become_somebody_else_without_right), 0);
	if (geteuid() == 0)
		cr_expect_eq(attempt_outside(become_a_number), 0);
}

static void *wait_for_ever(void *arg)
{
	pause();
	return arg;
}

static void enter_beside_a_thread(void)
{
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0);
	REQUIRE(enter_as("") == ERR_INVALID);
}

Test(sandbox, says_before_whom_it_would_make_us, .init = attempt_init)
{
	struct sandbox_options options = { .role = SANDBOX_ROLE_SIDECAR, .user = "4711" };
	uid_t uid = 0;
	gid_t gid = 0;

	if (geteuid() != 0)
		cr_skip("only root becomes somebody else");
	cr_assert_eq(sandbox_identity(&options, &uid, &gid), ERR_OK);
	cr_assert_eq(uid, 4711);
	cr_assert_eq(gid, 4711);
	options.user = "";
	cr_assert_eq(sandbox_identity(&options, &uid, &gid), ERR_OK);
	cr_assert_neq(uid, 0);
	options.user = "root";
	cr_assert_eq(sandbox_identity(&options, &uid, &gid), ERR_DENIED);
	options.user = "no-such-user";
	cr_assert_eq(sandbox_identity(&options, &uid, &gid), ERR_NOT_FOUND);
}

Test(sandbox, is_not_entered_while_another_thread_runs, .init = attempt_init)
{
#ifndef EGRESS_SANITIZED
	cr_expect_eq(attempt_outside(enter_beside_a_thread), 0);
#else
	(void)enter_beside_a_thread;
#endif
}

static void drop_for_good(void)
{
	gid_t groups[8] = { 4715 };

	REQUIRE(setgroups(1, groups) == 0);
	REQUIRE(privdrop_enter("4711", "nobody") == ERR_OK);
	REQUIRE(setresuid(0, 0, 0) != 0 && seteuid(0) != 0 && setresgid(0, 0, 0) != 0);
	REQUIRE(getgroups(8, groups) == 0);
	REQUIRE(open("/etc/shadow", O_RDONLY) < 0);
	REQUIRE(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
#ifndef EGRESS_SANITIZED
	REQUIRE(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
#endif
}

/* As a service manager starts a program: not root, and yet with a right of root's. */
static void drop_the_capabilities_of_a_user(void)
{
	REQUIRE(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0);
	REQUIRE(setresgid(4712, 4712, 4712) == 0 && setresuid(4712, 4712, 4712) == 0);
	REQUIRE(privdrop_enter(NULL, "nobody") == ERR_OK);
	REQUIRE(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 10, 0, 0) != 0);
}

Test(privdrop, there_is_no_way_back, .init = attempt_init)
{
	if (geteuid() != 0)
		return;
	cr_expect_eq(attempt_outside(drop_for_good), 0);
	cr_expect_eq(attempt_outside(drop_the_capabilities_of_a_user), 0);
}

static void filter_without_landlock(void)
{
	REQUIRE(privdrop_enter(NULL, "nobody") == ERR_OK);
	REQUIRE(seccomp_enter(SANDBOX_ROLE_DAEMON, false) == ERR_OK);
	REQUIRE(open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
}

Test(seccomp, without_landlock_the_daemon_opens_nothing_at_all, .init = attempt_init)
{
	if (seccomp_is_supported())
		cr_expect_eq(attempt_outside(filter_without_landlock), 0);
}
