/* The blocking side used by the command line: dial, greet, ask one command, print what comes back. */
#ifndef EGRESS_CONTROL_CLIENT_H
#define EGRESS_CONTROL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"

struct client;

typedef void client_output_fn(void *arg, const char *text, size_t len);

/* Connect to the daemon's control socket and greet. *out_fault: static text for people. */
enum err client_open(const char *path, unsigned wait_ms, struct client **out_client, const char **out_fault)
	ATTR_MUST_CHECK;
void client_close(struct client *c);
/* Ask `line` (word and arguments, tab-separated); output goes to `on_output`; *out_status is the exit status. */
enum err client_ask(struct client *c, const char *line, bool json, client_output_fn *on_output, void *arg,
		    unsigned *out_status, char out_message[512]) ATTR_MUST_CHECK;

#endif
