/* Forks, enters, tries, waits. A child that could not enter ends with 99. */
#include "attempt.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

void attempt_init(void)
{
	log_init("test", LOG_LEVEL_ERROR);
}

void attempt_failed(const char *file, int line, const char *condition)
{
	char text[512];
	int len = snprintf(text, sizeof(text), "%s:%d: in the child: %s\n", file, line, condition);

	(void)!write(STDERR_FILENO, text, len > 0 ? (size_t)len : 0);
	_exit(1);
}

static int run(const struct sandbox_options *options, attempt_fn *what)
{
	struct sandbox_report report;
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		alarm(30); /* whoever hangs must not outlive the test */
		if (options != NULL && sandbox_enter(options, &report) != ERR_OK)
			_exit(99);
		what();
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return status;
}

int attempt_with(const struct sandbox_options *options, attempt_fn *what)
{
	return run(options, what);
}

int attempt(enum sandbox_role role, attempt_fn *what)
{
	struct sandbox_options options = { .role = role };

	return run(&options, what);
}

int attempt_outside(attempt_fn *what)
{
	return run(NULL, what);
}
