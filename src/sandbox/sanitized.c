/*
 * What a sanitizer needs to report from behind the door: its file opened before main, its symbols read before files are forbidden, and
 * no leak check (that would trace the process). Empty in other builds. The daemon's leak run is the one without sandbox.
 */
#include "sandbox/sandbox_internal.h"

#ifdef EGRESS_SANITIZED

#include <fcntl.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int report_fd = -1;
static bool is_entered;

/* The file that log_path would make at the time of the report. Whoever looks for reports skips empty files. */
__attribute__((constructor)) static void open_report(void)
{
	const char *options = getenv("ASAN_OPTIONS");
	const char *path = options != NULL ? strstr(options, "log_path=") : NULL;
	char name[4096];

	if (path == NULL)
		return;
	path += strlen("log_path=");
	snprintf(name, sizeof(name), "%.*s.%d", (int)strcspn(path, ":"), path, (int)getpid());
	report_fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (report_fd >= 0)
		__sanitizer_set_report_fd((void *)(intptr_t)report_fd);
}

int __lsan_is_turned_off(void)
{
	return is_entered;
}

void sanitized_enter(void)
{
	char where[256];

	is_entered = true;
	/* Again, for a child: the descriptor counts only for the process that set it. */
	if (report_fd >= 0)
		__sanitizer_set_report_fd((void *)(intptr_t)report_fd);
	__sanitizer_symbolize_pc(__builtin_return_address(0), "%f %s:%l", where, sizeof(where));
}

#else

void sanitized_enter(void)
{
}

#endif
