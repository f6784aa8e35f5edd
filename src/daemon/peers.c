/* The control socket: who connects, what role they claim, and where their messages go. Decides nothing. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "daemon/daemon.h"

#define PEERS_MAX 64
#define PEERS_OF_OWNER 16          /* beyond it, for root and the daemon's user */
#define PEER_QUEUE_MAX (4u << 20) /* bytes that may wait for a slow peer */
#define PAUSE_MS 100              /* without descriptors */

static void peer_drop(struct peer *p)
{
	struct daemon *d = p->daemon;

	commands_forget(d, p);
	if (p->is_sidecar && d->sidecar == p)
		sidecar_link_lost(p);
	list_remove(&d->peers, &p->peers);
	channel_close(p->channel);
	alloc_free(p);
}

static void on_closed(void *arg, struct channel *c, enum err why)
{
	struct peer *p = arg;

	if (why != ERR_CLOSED)
		log_limited(&p->daemon->peer_complaint, LOG_LEVEL_WARN, "event=control_peer_dropped pid=%d why=\"%s\"",
			    (int)channel_peer(c)->pid, err_text(why));
	peer_drop(p);
}

static void hello_tool(struct peer *p)
{
	struct ctl_msg answer = {
		.type = CTL_WELCOME_TOOL,
		.field = { { .number = CTL_MSG_VERSION }, { .bytes = text_of(PACKAGE_VERSION) } },
	};

	channel_restrict(p->channel, CTL_FROM_TOOL);
	if (channel_send(p->channel, &answer, -1) != ERR_OK)
		log_limited(&p->daemon->peer_complaint, LOG_LEVEL_WARN, "event=tool_not_welcomed");
}

static void on_message(void *arg, struct channel *c, const struct ctl_msg *msg, int fd)
{
	struct peer *p = arg;

	if (p->is_sidecar) {
		sidecar_link_message(p, msg, fd);
		return;
	}
	if (fd >= 0)
		close(fd);
	if (msg->type == CTL_HELLO && text_is(msg->field[1].bytes, "sidecar"))
		sidecar_link_hello(p, msg);
	else if (msg->type == CTL_HELLO)
		hello_tool(p);
	else if (msg->type == CTL_COMMAND)
		commands_run(p, msg);
	else
		log_limited(&p->daemon->peer_complaint, LOG_LEVEL_WARN, "event=control_message_ignored message=%s",
			    ctl_row(msg->type)->word);
}

/* Tools that only hold their place must not keep the sidecar or the owner out. */
static bool has_place(const struct daemon *d, const struct channel *c)
{
	uid_t uid = channel_peer(c)->uid;

	return d->peers.count < (uid == 0 || uid == geteuid() ? PEERS_MAX + PEERS_OF_OWNER : PEERS_MAX);
}

static void peer_take(struct daemon *d, int fd)
{
	struct peer *p = alloc_zeroed(sizeof(*p));

	if (p == NULL) {
		close(fd);
		return;
	}
	p->daemon = d;
	/* On failure the descriptor is closed. */
	if (channel_open(d->loop, fd, CTL_FROM_SIDECAR | CTL_FROM_TOOL, PEER_QUEUE_MAX, on_message, on_closed, p,
			 &p->channel) != ERR_OK) {
		alloc_free(p);
		return;
	}
	if (!has_place(d, p->channel)) {
		channel_close(p->channel);
		alloc_free(p);
		return;
	}
	list_push_back(&d->peers, &p->peers);
}

static void on_pause_over(void *arg)
{
	struct daemon *d = arg;

	if (loop_watch_start(&d->control_watch) != ERR_OK && loop_timer_start(&d->control_pause, PAUSE_MS) != ERR_OK)
		log_line(LOG_LEVEL_ERROR, "event=control_deaf why=\"out of memory\"");
}

static void on_connect(void *arg, int fd, unsigned what)
{
	struct daemon *d = arg;
	int got = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (got >= 0) {
		peer_take(d, got);
		return;
	}
	if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
		return;
	log_limited(&d->control_complaint, LOG_LEVEL_WARN, "event=control_accept_failed errno=%d", errno);
	/* Who waits would call again at once: without a descriptor that is a loop that only turns. */
	if (loop_timer_start(&d->control_pause, PAUSE_MS) == ERR_OK)
		loop_watch_stop(&d->control_watch);
}

enum err peers_start(struct daemon *d)
{
	d->control_complaint = d->listener_complaint = (struct log_limit){ .burst = 1, .interval_ms = 10000 };
	d->peer_complaint = (struct log_limit){ .burst = 10, .interval_ms = 10000 };
	loop_timer_init(&d->control_pause, d->loop, on_pause_over, d);
	loop_watch_init(&d->control_watch, d->loop, d->control_fd, LOOP_READ, on_connect, d);
	return loop_watch_start(&d->control_watch);
}

void peers_stop(struct daemon *d)
{
	struct list_node *n;

	loop_watch_stop(&d->control_watch);
	loop_timer_cancel(&d->control_pause);
	while ((n = list_first(&d->peers)) != NULL)
		peer_drop(CONTAINER_OF(n, struct peer, peers));
}
