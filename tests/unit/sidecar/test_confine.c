/* What is given to whom before privilege is dropped, and what the sidecar can still do behind the door. As root alone. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/log.h"
#include "fixture.h"
#include "net/open_socket.h"
#include "sidecar/confine.h"

static struct arena arena;
static char folder[64];

static struct config *config_of(const char *user)
{
	struct fault_list faults;
	struct config *config = NULL;
	char text[1024];

	snprintf(text, sizeof(text),
		 "[daemon]\nrecords = %s/log/records\n"
		 "[listener box]\nbind = unix:%s/run/box.sock\n"
		 "[sidecar]\nsource = file:%s/root\ntrust = local\nstate = %s/state\nuser = %s\n",
		 folder, folder, folder, folder, user);
	fault_list_init(&faults, &arena);
	cr_assert_eq(config_parse("conf", text_of(text), CONFIG_FOR_SIDECAR, &faults, &config), ERR_OK,
		     "%s", faults.first == NULL ? "" : faults.first->text);
	return config;
}

static void bench_start(void)
{
	if (geteuid() != 0)
		cr_skip("only root becomes somebody else");
	log_init("test", LOG_LEVEL_ERROR);
	cr_assert_eq(crypto_init(), ERR_OK);
	umask(022);
	arena_init(&arena, 0);
	fixture_make_folder(folder);
	cr_assert_eq(chmod(folder, 0755), 0);
	cr_assert_eq(mkdir(fixture_path(folder, "root"), 0755), 0);
	cr_assert_eq(mkdir(fixture_path(folder, "log"), 0755), 0);
	cr_assert_eq(mkdir(fixture_path(folder, "run"), 0755), 0);
	fixture_write(fixture_path(folder, "root/ceiling.policy"), "allow any\n");
	cr_assert_eq(chmod(fixture_path(folder, "root/ceiling.policy"), 0644), 0);
	fixture_write(fixture_path(folder, "conf"), "");
	cr_assert_eq(chmod(fixture_path(folder, "conf"), 0644), 0);
}

static void bench_stop(void)
{
	arena_finish(&arena);
	fixture_remove_folder(folder);
}

static uid_t owner_of(const char *name)
{
	struct stat st;

	return lstat(fixture_path(folder, name), &st) == 0 ? st.st_uid : (uid_t)-1;
}

Test(confine, gives_state_and_records_to_whom_we_become_and_nothing_of_others)
{
	struct config *config;

	bench_start();
	config = config_of("4711");
	cr_expect_eq(confine_prepare(config, false), ERR_OK);
	cr_expect_eq(owner_of("state"), 0, "we stay who we are");
	cr_expect_eq(confine_prepare(config, true), ERR_OK);
	cr_expect_eq(owner_of("state"), 4711);
	cr_expect_eq(owner_of("log/records"), 4711);
	cr_expect_eq(owner_of("log"), 0);
	cr_assert_eq(chown(fixture_path(folder, "state"), 42, 42), 0);
	cr_expect_eq(confine_prepare(config, true), ERR_OK);
	cr_expect_eq(owner_of("state"), 42);
	config_unref(config);
	config = config_of("root");
	cr_expect_eq(confine_prepare(config, true), ERR_DENIED);
	config_unref(config);
	bench_stop();
}

/* In a process of its own, behind the door: a number for what does not hold, 0 for all. */
static int behind_the_door(const struct config *config)
{
	int fd;

	if (confine_enter(config, fixture_path(folder, "conf")) != ERR_OK)
		return 1;
	if (getuid() != 4711)
		return 2;
	if ((fd = open(fixture_path(folder, "root/ceiling.policy"), O_RDONLY | O_CLOEXEC)) < 0)
		return 3;
	close(fd);
	if ((fd = open(fixture_path(folder, "conf"), O_RDONLY | O_CLOEXEC)) < 0)
		return 4;
	close(fd);
	if ((fd = open(fixture_path(folder, "log/records"), O_WRONLY | O_APPEND | O_CLOEXEC)) < 0)
		return 5;
	close(fd);
	if ((fd = open(fixture_path(folder, "state/x"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) < 0)
		return 6;
	close(fd);
	if (open_socket_unix(fixture_path(folder, "run/box.sock"), 0660, 8, &fd) != ERR_OK)
		return 7;
	close(fd);
	if (open(fixture_path(folder, "root/new"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0)
		return 8;
	if (open("/proc/1/environ", O_RDONLY | O_CLOEXEC) >= 0)
		return 9;
	return open("/usr/bin/env", O_RDONLY | O_CLOEXEC) >= 0 ? 10 : 0;
}

Test(confine, can_do_its_work_behind_the_door_and_no_other)
{
	struct config *config;
	int status;
	pid_t pid;

	bench_start();
	config = config_of("4711");
	cr_assert_eq(confine_prepare(config, true), ERR_OK);
	cr_assert_eq(chown(fixture_path(folder, "run"), 4711, 4711), 0);
	pid = fork();
	cr_assert(pid >= 0);
	if (pid == 0)
		_exit(behind_the_door(config));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status), "killed by %d", WTERMSIG(status));
	cr_expect_eq(WEXITSTATUS(status), 0, "number %d", WEXITSTATUS(status));
	config_unref(config);
	bench_stop();
}
