/*
 * Commands that the running daemon answers: the line goes there as it is, what comes back is printed as it is, and the
 * daemon's status is ours. Decides nothing.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/sink.h"
#include "cli/cli.h"
#include "control/client.h"

#define WAIT_MS 5000
#define LINE_MAX_LEN 4096
#define TOP_EVERY_S 2

static void on_output(void *arg, const char *text, size_t len)
{
	fwrite(text, 1, len, stdout);
}

static bool make_line(const struct cli *cli, char line[LINE_MAX_LEN])
{
	struct sink s = sink_over(line, LINE_MAX_LEN - 1);

	sink_text(&s, cli->command);
	for (int i = 0; i < cli->arg_count; i++) {
		if (strchr(cli->args[i], '\t') != NULL)
			return false;
		sink_text(&s, "\t");
		sink_text(&s, cli->args[i]);
	}
	line[s.len] = '\0';
	return sink_ok(&s);
}

static int ask(const struct cli *cli, struct client *client, const char *line)
{
	char message[512];
	unsigned status;
	enum err e = client_ask(client, line, cli->json, on_output, NULL, &status, message);

	if (e != ERR_OK)
		return cli_fail(cli, "the answer broke off: %s", err_text(e));
	fflush(stdout);
	if (message[0] != '\0')
		fprintf(stderr, "egressctl %s: %s\n", cli->command, message);
	return (int)status;
}

static int dial(const struct cli *cli, struct client **out_client)
{
	const char *fault = "";

	if (client_open(cli->socket, WAIT_MS, out_client, &fault) != ERR_OK)
		return cli_fail(cli, "%s: %s", cli->socket, fault);
	return CLI_DONE;
}

int cmd_daemon(struct cli *cli)
{
	char line[LINE_MAX_LEN];
	struct client *client;
	int status;

	if (!cli_args_hold(cli, 0, CLI_ARGS_MAX))
		return CLI_FAILED;
	if (!make_line(cli, line))
		return cli_fail(cli, "an argument is too long or holds a tab");
	status = dial(cli, &client);
	if (status != CLI_DONE)
		return status;
	status = ask(cli, client, line);
	client_close(client);
	return status;
}

int cmd_top(struct cli *cli)
{
	bool once = cli_take_flag(cli, "--once") || cli->json || !isatty(STDOUT_FILENO);
	struct client *client;
	int status;

	if (!cli_args_hold(cli, 0, 0))
		return CLI_FAILED;
	status = dial(cli, &client);
	if (status != CLI_DONE)
		return status;
	for (;;) {
		if (!once)
			fputs("\033[H\033[2J", stdout);
		status = ask(cli, client, "top");
		if (once || status != CLI_DONE)
			break;
		sleep(TOP_EVERY_S);
	}
	client_close(client);
	return status;
}
