/*
 * What threads share of src/net, for ThreadSanitizer (which Criterion cannot live with): two workers with a loop each post
 * to one another, one hands accepted descriptors to the other, four threads post into both, and a fifth stops them.
 * Without ThreadSanitizer it is an ordinary check of the counts.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/attr.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/pump.h"
#include "net/relay.h"

enum { SENDERS = 4, MESSAGES = 2000, GUESTS = 50, WORKERS = 2 };

struct worker {
	struct loop *loop;
	struct metrics metrics;
	struct pump_worker pump;
	struct listener *listener; /* of worker 0 */
	struct worker *other;      /* borrowed */
	unsigned received, misordered, echoed;
	unsigned next[SENDERS];
	struct loop_message stop;
	pthread_t thread;
};

struct note {
	struct loop_message message;
	struct worker *to; /* borrowed */
	unsigned sender, number;
};

/* A guest on its way from the worker that accepted it to the one that serves it: echoes through a relay to itself. */
struct guest {
	struct loop_message message;
	struct worker *home;         /* borrowed */
	struct relay *relay;
	int fd, ends[2];             /* the far end of the relay echoes to the guest's own bytes */
	struct loop_watch echo;
};

static struct worker workers[WORKERS];
static struct note notes[SENDERS][MESSAGES];
static struct guest guests[GUESTS];
static unsigned accepted;
static atomic_uint served;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void on_note(void *arg)
{
	struct note *n = arg;

	if (n->number / WORKERS != n->to->next[n->sender]++)
		n->to->misordered++;
	n->to->received++;
}

static void *send_notes(void *arg)
{
	struct note *all = arg;

	for (unsigned i = 0; i < MESSAGES; i++)
		loop_post(all[i].to->loop, &all[i].message, on_note, &all[i]);
	return NULL;
}

static void on_echo(void *arg, int fd, unsigned what)
{
	struct guest *g = arg;
	char bytes[256];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n > 0 && send(fd, bytes, (size_t)n, MSG_NOSIGNAL) == n)
		g->home->echoed += (unsigned)n;
	if (n == 0) {
		shutdown(fd, SHUT_WR);
		loop_watch_stop(&g->echo);
	}
}

static void on_relay_end(void *arg, enum relay_end why)
{
	struct guest *g = arg;

	relay_destroy(g->relay);
	loop_watch_stop(&g->echo);
	close(g->fd);
	close(g->ends[0]);
	close(g->ends[1]);
	atomic_fetch_add(&served, 1);
}

static void on_arrival(void *arg)
{
	struct guest *g = arg;
	struct relay_options options = { .may_splice = true };

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, g->ends) != 0)
		fail("socketpair");
	loop_watch_init(&g->echo, g->home->loop, g->ends[1], LOOP_READ, on_echo, g);
	if (loop_watch_start(&g->echo) != ERR_OK ||
	    relay_start(g->home->loop, &g->home->pump, &g->home->metrics, g->fd, g->ends[0], &options, NULL, 0,
			on_relay_end, g, &g->relay) != ERR_OK)
		fail("relay_start");
}

static void on_accept(void *arg, struct listener *l, int fd, const struct endpoint *source)
{
	struct worker *w = arg;
	struct guest *g = &guests[accepted++];

	g->fd = fd;
	g->home = accepted % 2 == 0 ? w : w->other;
	loop_post(g->home->loop, &g->message, on_arrival, g);
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;

	loop_run(w->loop);
	return NULL;
}

static int listen_somewhere(struct sockaddr_in *out_at)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) != 0 || listen(fd, GUESTS) != 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) != 0)
		fail("listen");
	*out_at = at;
	return fd;
}

/* Knock, say something, hear it back. */
static void be_guest(const struct sockaddr_in *at)
{
	static const char said[] = "round and round";
	char heard[sizeof(said)];
	size_t len = 0;
	ssize_t n;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)at, sizeof(*at)) != 0 ||
	    send(fd, said, sizeof(said), 0) != sizeof(said) || shutdown(fd, SHUT_WR) != 0)
		fail("guest");
	while (len < sizeof(heard) && (n = read(fd, heard + len, sizeof(heard) - len)) > 0)
		len += (size_t)n;
	if (len != sizeof(said) || memcmp(heard, said, len) != 0)
		fail("echo");
	close(fd);
}

static void start_workers(struct sockaddr_in *out_at)
{
	struct listener_options options = { .name = "tsan" };

	for (unsigned i = 0; i < WORKERS; i++) {
		workers[i].loop = loop_create();
		workers[i].other = &workers[1 - i];
		if (workers[i].loop == NULL || pump_worker_init(&workers[i].pump, 2) != ERR_OK)
			fail("worker");
	}
	if (listener_create(workers[0].loop, &workers[0].metrics, listen_somewhere(out_at), &options, on_accept,
			    &workers[0], &workers[0].listener) != ERR_OK)
		fail("listener_create");
	for (unsigned i = 0; i < WORKERS; i++) {
		if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0)
			fail("pthread_create");
	}
}

static void on_stop(void *arg)
{
	loop_stop(arg);
}

static unsigned stop_workers(void)
{
	unsigned received = 0;

	for (unsigned i = 0; i < WORKERS; i++) {
		/* A message, and not a call, so that all that was posted before is received before. */
		loop_post(workers[i].loop, &workers[i].stop, on_stop, workers[i].loop);
		pthread_join(workers[i].thread, NULL);
		received += workers[i].received;
		if (workers[i].misordered != 0)
			received = 0;
	}
	listener_destroy(workers[0].listener);
	for (unsigned i = 0; i < WORKERS; i++) {
		loop_destroy(workers[i].loop);
		pump_worker_finish(&workers[i].pump);
	}
	return received;
}

int main(void)
{
	pthread_t senders[SENDERS];
	struct sockaddr_in at;
	unsigned received;

	start_workers(&at);
	for (unsigned s = 0; s < SENDERS; s++) {
		for (unsigned i = 0; i < MESSAGES; i++)
			notes[s][i] = (struct note){ .to = &workers[i % WORKERS], .sender = s, .number = i };
		if (pthread_create(&senders[s], NULL, send_notes, notes[s]) != 0)
			fail("pthread_create");
	}
	for (unsigned i = 0; i < GUESTS; i++)
		be_guest(&at);
	for (unsigned s = 0; s < SENDERS; s++)
		pthread_join(senders[s], NULL);
	for (unsigned n = 0; n < 1000 && atomic_load(&served) < GUESTS; n++)
		usleep(10000);
	received = stop_workers();
	printf("received %u of %u, served %u of %u\n", received, SENDERS * MESSAGES, atomic_load(&served), GUESTS);
	return received == SENDERS * MESSAGES && atomic_load(&served) == GUESTS ? 0 : 1;
}
