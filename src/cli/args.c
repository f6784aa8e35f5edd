/* Options of one command, wherever they stand among its arguments. Called by main and the commands. */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void drop_args(struct cli *cli, int at, int count)
{
	for (int i = at; i + count < cli->arg_count; i++)
		cli->args[i] = cli->args[i + count];
	cli->arg_count -= count;
}

bool cli_take_value(struct cli *cli, const char *name, const char **out_value)
{
	size_t len = strlen(name);

	for (int i = 0; i < cli->arg_count; i++) {
		const char *arg = cli->args[i];

		if (strcmp(arg, "--") == 0)
			return false;
		if (strncmp(arg, name, len) != 0)
			continue;
		if (arg[len] == '=') {
			*out_value = arg + len + 1;
			drop_args(cli, i, 1);
			return true;
		}
		if (arg[len] == '\0') {
			bool has_value = i + 1 < cli->arg_count;

			*out_value = has_value ? cli->args[i + 1] : NULL;
			drop_args(cli, i, has_value ? 2 : 1);
			return true;
		}
	}
	return false;
}

bool cli_take_flag(struct cli *cli, const char *name)
{
	for (int i = 0; i < cli->arg_count; i++) {
		if (strcmp(cli->args[i], "--") == 0)
			return false;
		if (strcmp(cli->args[i], name) == 0) {
			drop_args(cli, i, 1);
			return true;
		}
	}
	return false;
}

int cli_fail(const struct cli *cli, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "egressctl%s%s: ", cli->command == NULL ? "" : " ",
		cli->command == NULL ? "" : cli->command);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return CLI_FAILED;
}

bool cli_args_hold(const struct cli *cli, int min, int max)
{
	for (int i = 0; i < cli->arg_count; i++) {
		if (strncmp(cli->args[i], "--", 2) == 0 && cli->args[i][2] != '\0') {
			cli_fail(cli, "there is no option %s here", cli->args[i]);
			return false;
		}
	}
	if (cli->arg_count >= min && cli->arg_count <= max)
		return true;
	cli_fail(cli, "%s arguments; see egressctl help %s",
		 cli->arg_count < min ? "too few" : "too many", cli->command);
	return false;
}
