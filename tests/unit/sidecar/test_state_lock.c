/* One sidecar to a state folder: the second is told who holds it, and whoever comes after a death waits for nobody. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "sidecar/state_lock.h"

/* A process that holds the lock until it is killed. */
static pid_t start_holder(const char *folder)
{
	int ready[2], fd;
	long holder;
	pid_t pid;
	char c = 0;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		c = state_lock_take(folder, &fd, &holder) == ERR_OK;
		(void)!write(ready[1], &c, 1);
		for (;;)
			pause();
	}
	cr_assert_eq(read(ready[0], &c, 1), 1);
	cr_assert_eq(c, 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

Test(state_lock, a_second_holder_is_told_who_the_first_is_until_that_is_killed)
{
	size_t before = fixture_fd_count();
	char folder[64];
	long holder = 0;
	pid_t pid;
	int fd;

	fixture_make_folder(folder);
	for (int round = 0; round < 2; round++) {
		pid = start_holder(folder);
		cr_assert_eq(state_lock_take(folder, &fd, &holder), ERR_AGAIN);
		cr_assert_eq(holder, (long)pid);
		kill(pid, SIGKILL);
		cr_assert_eq(waitpid(pid, NULL, 0), pid);
		cr_assert_eq(state_lock_take(folder, &fd, &holder), ERR_OK);
		close(fd);
	}
	cr_assert_eq(fixture_fd_count(), before);
	fixture_remove_folder(folder);
}

Test(state_lock, a_holder_that_could_not_write_itself_in_holds_all_the_same)
{
	static const char *const texts[] = { "", "12", "x\n", "-4\n", "99999999999999999999999\n" };
	char folder[64];
	long holder;
	int fd, other;

	fixture_make_folder(folder);
	cr_assert_eq(state_lock_take(folder, &fd, &holder), ERR_OK);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		fixture_write(fixture_path(folder, STATE_LOCK_NAME), texts[i]);
		holder = 77;
		cr_assert_eq(state_lock_take(folder, &other, &holder), ERR_AGAIN);
		cr_assert_eq(holder, 0, "%s", texts[i]);
	}
	close(fd);
	fixture_remove_folder(folder);
}

Test(state_lock, what_is_no_folder_or_no_file_is_said)
{
	char folder[64];
	long holder;
	int fd;

	fixture_make_folder(folder);
	cr_assert_eq(symlink("/dev/null", fixture_path(folder, STATE_LOCK_NAME)), 0);
	cr_assert_eq(state_lock_take(folder, &fd, &holder), ERR_SYSTEM);
	cr_assert_eq(errno, ELOOP);
	fixture_remove_folder(folder);
	cr_assert_eq(state_lock_take(folder, &fd, &holder), ERR_SYSTEM);
	cr_assert_eq(errno, ENOENT);
}
