/*
 * The blocking side of a control connection, for the command line. Promises to hand over output in order and to end
 * with the daemon's status or with a fault, never to hang on the greeting. Called by src/cli.
 */
#include "control/client.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "control/channel.h"
#include "control/packet_internal.h"

struct client {
	int fd;              /* owned */
	uint64_t requests;   /* made so far */
	uint8_t packet[CTL_MSG_MAX];
};

static const char *dial_fault(enum err e)
{
	switch (e) {
	case ERR_NOT_FOUND:
		return "there is no such socket; is egressd running?";
	case ERR_CLOSED:
		return "nobody listens on the control socket; is egressd running?";
	case ERR_DENIED:
		return "you may not use the control socket";
	case ERR_INVALID:
		return "the socket's path is empty or too long";
	case ERR_AGAIN:
		return "egressd is too busy to answer";
	default:
		return "the control socket cannot be reached";
	}
}

static bool wait_at_most(int fd, unsigned wait_ms)
{
	struct timeval patience = { .tv_sec = wait_ms / 1000,
				    .tv_usec = (suseconds_t)(wait_ms % 1000) * 1000 };

	return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0;
}

static enum err send_message(struct client *c, const struct ctl_msg *msg)
{
	size_t len = ctl_msg_write(msg, c->packet, sizeof(c->packet));

	return len == 0 ? ERR_INVALID : packet_send(c->fd, c->packet, len, -1);
}

static enum err greet(struct client *c, unsigned wait_ms, const char **out_fault)
{
	struct ctl_msg msg = { .type = CTL_HELLO };
	enum err e;
	int fd;

	msg.field[0].number = CTL_MSG_VERSION;
	msg.field[1].bytes = text_of("tool");
	msg.field[2].bytes = text_of(PACKAGE_VERSION);
	*out_fault = "egressd closed the connection";
	e = send_message(c, &msg);
	if (e != ERR_OK)
		return e;
	if (!wait_at_most(c->fd, wait_ms == 0 ? 1 : wait_ms))
		return ERR_SYSTEM;
	e = packet_receive(c->fd, c->packet, CTL_FROM_DAEMON, &msg, &fd);
	if (e == ERR_AGAIN)
		*out_fault = "egressd did not answer in time";
	if (e == ERR_INVALID)
		*out_fault = "egressd speaks another version of the control protocol";
	if (e != ERR_OK)
		return e;
	if (fd >= 0)
		close(fd);
	if (msg.type != CTL_WELCOME_TOOL || msg.field[0].number != CTL_MSG_VERSION ||
	    !wait_at_most(c->fd, 0)) {
		*out_fault = "egressd speaks another version of the control protocol";
		return ERR_INVALID;
	}
	return ERR_OK;
}

enum err client_open(const char *path, unsigned wait_ms, struct client **out_client,
		     const char **out_fault)
{
	struct client *c = alloc_zeroed(sizeof(*c));
	enum err e;

	if (c == NULL) {
		*out_fault = err_text(ERR_NO_MEMORY);
		return ERR_NO_MEMORY;
	}
	e = channel_dial(path, wait_ms, &c->fd);
	if (e != ERR_OK) {
		*out_fault = dial_fault(e);
		alloc_free(c);
		return e;
	}
	e = greet(c, wait_ms, out_fault);
	if (e != ERR_OK) {
		client_close(c);
		return e;
	}
	*out_client = c;
	return ERR_OK;
}

void client_close(struct client *c)
{
	if (c == NULL)
		return;
	close(c->fd);
	alloc_free(c);
}

static void copy_message(struct text t, char out_message[512])
{
	size_t len = t.len < 511 ? t.len : 511;

	memcpy(out_message, t.len == 0 ? "" : t.at, len);
	out_message[len] = '\0';
}

enum err client_ask(struct client *c, const char *line, bool json, client_output_fn *on_output, void *arg,
		    unsigned *out_status, char out_message[512])
{
	struct ctl_msg msg = { .type = CTL_COMMAND };
	uint64_t request = ++c->requests;
	enum err e;

	msg.field[0].number = request;
	msg.field[1].bytes = text_of(line);
	msg.field[2].number = json ? 1 : 0;
	e = send_message(c, &msg);
	if (e != ERR_OK)
		return e;
	for (;;) {
		int fd;

		e = packet_receive(c->fd, c->packet, CTL_FROM_DAEMON, &msg, &fd);
		if (e != ERR_OK)
			return e;
		if (fd >= 0)
			close(fd);
		if ((msg.type != CTL_OUTPUT && msg.type != CTL_DONE) ||
		    msg.field[0].number != request)
			return ERR_INVALID;
		if (msg.type == CTL_DONE)
			break;
		on_output(arg, msg.field[1].bytes.at, msg.field[1].bytes.len);
	}
	if (msg.field[1].number > 2)
		return ERR_INVALID;
	*out_status = (unsigned)msg.field[1].number;
	copy_message(msg.field[2].bytes, out_message);
	return ERR_OK;
}
