/*
 * What every command of egressctl gets and gives back: its arguments, whether programs or people read, and an exit status. The table of
 * commands is in main.c; each command is one function of one file.
 */
#ifndef EGRESS_CLI_CLI_H
#define EGRESS_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"

/* Exit status (contract section 9). */
enum { CLI_DONE = 0, CLI_FINDINGS = 1, CLI_FAILED = 2 };

#define CLI_ARGS_MAX 4096

struct cli {
	bool json;
	const char *socket;  /* borrowed: of the daemon */
	const char *command; /* borrowed: the word */
	char **args;         /* borrowed: behind the word; options that were taken are gone */
	int arg_count;
};

typedef int cli_command_fn(struct cli *cli);

/* Take `--name VALUE` or `--name=VALUE` out of the arguments, the first one; false if there is none. A missing value is NULL. */
bool cli_take_value(struct cli *cli, const char *name, const char **out_value);
/* Take `--name` out; false if it is not there. */
bool cli_take_flag(struct cli *cli, const char *name);
/* Between min and max arguments are left, and none looks like an option? Else says what is wrong. */
bool cli_args_hold(const struct cli *cli, int min, int max) ATTR_MUST_CHECK;
/* Print "egressctl COMMAND: …" and a line end to standard error; returns CLI_FAILED. */
int cli_fail(const struct cli *cli, const char *format, ...) ATTR_PRINTF(2, 3);

/* cmd_daemon.c: asked of the running daemon, which formats the answer. */
int cmd_daemon(struct cli *cli);
int cmd_top(struct cli *cli);
/* cmd_token.c, cmd_lint.c, cmd_explain.c: done here. */
int cmd_token(struct cli *cli);
int cmd_lint(struct cli *cli);
int cmd_explain(struct cli *cli);
/* cmd_authority.c: control for fleets without one. */
int cmd_authority(struct cli *cli);

#endif
