/*
 * Runs commands of tools by table: word, who may ask, arguments, and a handler that was registered from above. Knows what a command
 * looks like, not what any of them does. Output is text or NDJSON, sent in pieces, closed by an exit status.
 */
#ifndef EGRESS_CONTROL_COMMAND_H
#define EGRESS_CONTROL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/text.h"
#include "control/channel.h"

#define COMMAND_ARGS_MAX 8

/* One command being answered; lives until command_done. The handler may keep it and answer later. */
struct command_call {
	struct channel *channel; /* borrowed; NULL once the tool went away */
	uint64_t request;
	bool json;
	unsigned arg_count;
	char *args[COMMAND_ARGS_MAX]; /* owned; args[0] is the word */
	void *state;                  /* the handler's, while it keeps the call */
	struct list_node node;        /* the owner's, to find the calls of a channel */
	struct buf output;            /* what waits for more before it is sent */
	bool cut_short;               /* output was lost: the tool read too slowly, or text that cannot be sent */
};

typedef void command_fn(void *arg, struct command_call *call);

struct command_row {
	const char *word;
	unsigned args_min, args_max; /* behind the word */
	bool owner_only;             /* only root or the daemon's own user may ask */
	command_fn *run;
};

/* Parse a COMMAND message and run it; unknown words and wrong arguments are answered with status 2. */
void command_run(const struct command_row *rows, size_t count, void *arg, struct channel *channel,
		 const struct ctl_msg *msg, uid_t own_uid);
/*
 * Append output; it is sent in pieces of 16 KiB and with command_flush or command_done. A tool that reads too slowly loses output and is
 * told so by status 2.
 */
void command_print(struct command_call *call, const char *format, ...) ATTR_PRINTF(2, 3);
void command_write(struct command_call *call, const char *bytes, size_t len);
void command_flush(struct command_call *call);
/* Finish with an exit status (contract section 9) and a message for people (NULL: none); frees the call. */
void command_done(struct command_call *call, unsigned status, const char *message);
/* The channel is going away: calls kept on it keep living, but say nothing. */
void command_forget_channel(struct command_call *call);

#endif
