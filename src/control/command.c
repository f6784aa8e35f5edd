/*
 * Commands of tools, by table. Promises one answer per command: output in pieces, then exactly one DONE, also for what
 * is unknown or malformed. Refuses to know what a command does. Called by daemon and sidecar.
 */
#include "control/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define PIECE 16384        /* bytes gathered before a packet is sent */
#define MESSAGE_MAX 511    /* of DONE */

static void say_done(struct channel *channel, uint64_t request, unsigned status, const char *message)
{
	struct ctl_msg msg = { .type = CTL_DONE };
	struct text text = text_of(message == NULL ? "" : message);

	if (text.len > MESSAGE_MAX)
		text.len = MESSAGE_MAX;
	msg.field[0].number = request;
	msg.field[1].number = status;
	msg.field[2].bytes = text;
	/* A tool that does not even read the end of its answer is closed by who owns the channel. */
	if (channel_send(channel, &msg, -1) != ERR_OK)
		return;
}

static void say_fault(struct channel *channel, uint64_t request, const char *what, struct text word)
{
	char quoted[128], message[MESSAGE_MAX + 1];

	text_escape(word, quoted, sizeof(quoted));
	snprintf(message, sizeof(message), "%s: %s", what, quoted);
	say_done(channel, request, 2, message);
}

/* Split at tabs; false for too many arguments or no memory. */
static bool split(struct command_call *call, struct text line)
{
	size_t from = 0;

	for (size_t i = 0; i <= line.len; i++) {
		char *copy;

		if (i < line.len && line.at[i] != '\t')
			continue;
		if (call->arg_count == COMMAND_ARGS_MAX)
			return false;
		copy = alloc_copy(line.at + from, i - from);
		if (copy == NULL)
			return false;
		call->args[call->arg_count++] = copy;
		from = i + 1;
	}
	return true;
}

static void call_destroy(struct command_call *call)
{
	if (call == NULL)
		return;
	for (unsigned i = 0; i < call->arg_count; i++)
		alloc_free(call->args[i]);
	buf_finish(&call->output);
	alloc_free(call);
}

static const struct command_row *find_row(const struct command_row *rows, size_t count, const char *word)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(rows[i].word, word) == 0)
			return &rows[i];
	}
	return NULL;
}

void command_run(const struct command_row *rows, size_t count, void *arg, struct channel *channel,
		 const struct ctl_msg *msg, uid_t own_uid)
{
	struct command_call *call = alloc_zeroed(sizeof(*call));
	uint64_t request = msg->field[0].number;
	struct text line = msg->field[1].bytes;
	const struct command_row *row;
	uid_t uid = channel_peer(channel)->uid;

	if (call == NULL) {
		say_done(channel, request, 2, err_text(ERR_NO_MEMORY));
		return;
	}
	call->channel = channel;
	call->request = request;
	call->json = (msg->field[2].number & 1) != 0;
	buf_init(&call->output, 2 * PIECE);
	if (!split(call, line)) {
		say_done(channel, request, 2, "too many arguments");
		goto out;
	}
	row = find_row(rows, count, call->args[0]);
	if (row == NULL) {
		say_fault(channel, request, "unknown command", text_of(call->args[0]));
		goto out;
	}
	if (call->arg_count - 1 < row->args_min || call->arg_count - 1 > row->args_max) {
		say_fault(channel, request, "wrong number of arguments", text_of(row->word));
		goto out;
	}
	if (row->owner_only && uid != 0 && uid != own_uid) {
		say_fault(channel, request, "not permitted", text_of(row->word));
		goto out;
	}
	row->run(arg, call);
	return;
out:
	call_destroy(call);
}

void command_flush(struct command_call *call)
{
	struct ctl_msg msg = { .type = CTL_OUTPUT };

	if (call->output.len == 0)
		return;
	msg.field[0].number = call->request;
	msg.field[1].bytes =
		(struct text){ (const char *)buf_data(&call->output), call->output.len };
	if (call->channel != NULL && !call->cut_short &&
	    channel_send(call->channel, &msg, -1) != ERR_OK)
		call->cut_short = true;
	buf_consume(&call->output, call->output.len);
}

void command_write(struct command_call *call, const char *bytes, size_t len)
{
	while (len > 0 && call->channel != NULL && !call->cut_short) {
		size_t part = len < PIECE ? len : PIECE;

		if (buf_append(&call->output, bytes, part) != ERR_OK) {
			call->cut_short = true;
			return;
		}
		if (call->output.len >= PIECE)
			command_flush(call);
		bytes += part;
		len -= part;
	}
}

void command_print(struct command_call *call, const char *format, ...)
{
	char line[1024], *longer;
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (len < 0)
		return;
	if ((size_t)len < sizeof(line)) {
		command_write(call, line, (size_t)len);
		return;
	}
	longer = alloc_zeroed((size_t)len + 1);
	if (longer == NULL) {
		call->cut_short = true;
		return;
	}
	va_start(args, format);
	vsnprintf(longer, (size_t)len + 1, format, args);
	va_end(args);
	command_write(call, longer, (size_t)len);
	alloc_free(longer);
}

void command_done(struct command_call *call, unsigned status, const char *message)
{
	command_flush(call);
	if (call->channel != NULL && call->cut_short)
		say_done(call->channel, call->request, 2, "the answer was cut short");
	else if (call->channel != NULL)
		say_done(call->channel, call->request, status, message);
	call_destroy(call);
}

void command_forget_channel(struct command_call *call)
{
	call->channel = NULL;
}
