/*
 * egressctl: one row a command. Finds the row, takes the options that all commands share, and gives back the command's exit
 * status. Decides nothing by itself: every answer comes from the daemon or from the code that the daemon runs.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "base/log.h"
#include "cli/cli.h"
#include "config/fault.h"
#include "config/option.h"

struct command_help {
	const char *word;
	const char *arguments;
	bool needs_daemon;
	cli_command_fn *run;
	const char *help;
};

static const struct command_help commands[] = {
	{ "lint", "[--root DIR] FILE…", false, cmd_lint,
	  "Faults and warnings of policies and leases, with line and column." },
	{ "explain", "LEASE TARGET [--root DIR] [--config FILE] [--address A]… | --batch", false, cmd_explain,
	  "What would happen and why: every phase, rule by rule. --batch reads and writes a JSON object a line." },
	{ "token", "new", false, cmd_token, "A new token for a guest, and the digest for its lease." },
	{ "why", "[LEASE]", true, cmd_daemon, "The last refusals, with what would have helped." },
	{ "leases", "", true, cmd_daemon, "Leases in force." },
	{ "sessions", "[LEASE]", true, cmd_daemon, "Connections that are open." },
	{ "pins", "[LEASE] | flush [LEASE]", true, cmd_daemon, "Addresses that names are bound to; flush forgets them." },
	{ "health", "", true, cmd_daemon, "Is the daemon ready, and until when does its policy hold?" },
	{ "sidecar", "", true, cmd_daemon, "How the sidecar is doing: freshness, leases, faults of the source." },
	{ "authority",
	  "keygen KEYS [--role ROLE] [--root-keys N] [--threshold N] | "
	  "sign KEYS OUT [--days N] [--epoch N] [--propose | --add] | run KEYS ROOT OUT --cell NAME | --cells [--lifetime S] [--once]",
	  false, cmd_authority, "Signed documents for fleets without a control plane: keys, keysets, leases and beats." },
	{ "top", "[--once]", true, cmd_top, "Figures, again and again." },
	{ "revoke", "LEASE", true, cmd_daemon, "Close a lease now; it stays revoked until control says something newer." },
	{ "drain", "", true, cmd_daemon, "Take no new connections and end when the last is gone." },
};

static const struct command_help *find_command(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(commands[i].word, word) == 0)
			return &commands[i];
	}
	return NULL;
}

static void print_usage(FILE *to)
{
	fputs("usage: egressctl COMMAND [ARGUMENT…] [--socket PATH] [--json]\n\n", to);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(to, "  %-9s %s\n", commands[i].word, commands[i].help);
	fputs("\negressctl help COMMAND tells its arguments. Exit status: 0 done or allowed, 1 denied or\n"
	      "findings, 2 usage or failure.\n",
	      to);
}

static int help(struct cli *cli)
{
	const struct command_help *c = cli->arg_count == 0 ? NULL : find_command(cli->args[0]);

	if (c == NULL) {
		print_usage(stdout);
		return CLI_DONE;
	}
	printf("usage: egressctl %s%s%s [--json]%s\n%s\n", c->word, c->arguments[0] == '\0' ? "" : " ",
	       c->arguments, c->needs_daemon ? " [--socket PATH]" : "", c->help);
	return CLI_DONE;
}

static int say_unknown(struct cli *cli)
{
	const char *words[ARRAY_LEN(commands)], *near, *word = cli->command;
	char shown[64];

	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		words[i] = commands[i].word;
	near = fault_nearest(text_of(word), words, ARRAY_LEN(words));
	text_escape(text_of(word), shown, sizeof(shown));
	cli->command = NULL;
	if (near != NULL)
		return cli_fail(cli, "there is no command \"%s\"; did you mean \"%s\"?", shown, near);
	return cli_fail(cli, "there is no command \"%s\"; egressctl help lists them", shown);
}

static const char *standard_socket(void)
{
	size_t count;
	const struct option_row *rows = option_table(text_of("daemon"), &count);

	for (size_t i = 0; i < count; i++) {
		if (strcmp(rows[i].name, "control") == 0)
			return rows[i].standard;
	}
	return "";
}

static int run(struct cli *cli)
{
	const struct command_help *c;

	cli->json = cli_take_flag(cli, "--json");
	cli->socket = standard_socket();
	if (cli_take_value(cli, "--socket", &cli->socket) && cli->socket == NULL)
		return cli_fail(cli, "--socket needs a path");
	if (cli_take_flag(cli, "--version")) {
		printf("egressctl %s\n", PACKAGE_VERSION);
		return CLI_DONE;
	}
	if (cli_take_flag(cli, "--help")) {
		return help(cli);
	}
	if (cli->arg_count == 0) {
		print_usage(stderr);
		return CLI_FAILED;
	}
	cli->command = cli->args[0];
	cli->args++;
	cli->arg_count--;
	if (strcmp(cli->command, "help") == 0)
		return help(cli);
	c = find_command(cli->command);
	return c == NULL ? say_unknown(cli) : c->run(cli);
}

int main(int argc, char **argv)
{
	struct cli cli = { .args = argv + 1, .arg_count = argc - 1 };
	int status;

	/* A reader that went away is a write error like any other. */
	signal(SIGPIPE, SIG_IGN);
	log_init("egressctl", LOG_LEVEL_ERROR);
	if (argc < 1 || argc > CLI_ARGS_MAX || crypto_init() != ERR_OK)
		return CLI_FAILED;
	status = run(&cli);
	if (fflush(stdout) != 0 || ferror(stdout))
		return cli_fail(&cli, "the output could not be written");
	return status;
}
