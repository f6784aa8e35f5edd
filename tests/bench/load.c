/*
 * Load for measuring relays side by side. Sends only to the given proxy and server; every loop is bounded by -t or -n.
 *   load serve ADDRESS PORT                     the first byte of each connection says: e echo, d discard, s send for ever
 *   load rate|bulk|up|rr|idle -p PROXY:PORT -d SERVER:PORT [-c CONNECTIONS] [-t SECONDS] [-n COUNT]
 * rate: connect, handshake, 64 bytes echoed, close. bulk, up: bytes down or up. rr: round trips of 64 bytes. idle: open COUNT and
 * hold them until standard input ends. Prints one line of "word number" pairs.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 262144
#define SMALL 64
#define SAMPLES_MAX 1000000

enum step { CONNECTING, GREETING, ASKED, RUNNING };

struct conn {
	int fd;
	enum step step;
	size_t got; /* bytes of the message under way */
	uint64_t since_ns;
};

struct load {
	char mode; /* c rate, b bulk, u up, r round trips, i idle */
	int loop_fd;
	struct sockaddr_in proxy, server;
	uint64_t bytes, done, failed;
	size_t sample_count;
};

static char chunk[CHUNK];
static double samples[SAMPLES_MAX];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct sockaddr_in endpoint(const char *text)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	char host[64] = { 0 };
	const char *colon = strrchr(text, ':');

	if (colon == NULL || (size_t)(colon - text) >= sizeof(host))
		die(text);
	memcpy(host, text, (size_t)(colon - text));
	a.sin_port = htons((uint16_t)atoi(colon + 1));
	if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
		die(text);
	return a;
}

static void watch(const struct load *l, struct conn *c, uint32_t events, int op)
{
	struct epoll_event e = { .events = events, .data.ptr = c };

	if (epoll_ctl(l->loop_fd, op, c->fd, &e) != 0)
		die("epoll_ctl");
}

static void start(struct load *l, struct conn *c)
{
	int one = 1;

	*c = (struct conn){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) };
	if (c->fd < 0)
		die("socket");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(c->fd, (struct sockaddr *)&l->proxy, sizeof(l->proxy)) != 0 && errno != EINPROGRESS)
		die("connect");
	watch(l, c, EPOLLOUT, EPOLL_CTL_ADD);
}

static void put(struct load *l, struct conn *c, const void *bytes, size_t len)
{
	if (send(c->fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		l->failed++;
}

/* One step of the handshake; true once the tunnel is open. */
static bool advance(struct load *l, struct conn *c)
{
	static const uint8_t greeting[3] = { 5, 1, 0 };
	uint8_t in[16], request[10] = { 5, 1, 0, 1 };
	size_t want = c->step == GREETING ? 2 : 10;
	ssize_t n;

	if (c->step == CONNECTING) {
		put(l, c, greeting, sizeof(greeting));
		c->step = GREETING;
		watch(l, c, EPOLLIN, EPOLL_CTL_MOD);
		return false;
	}
	n = recv(c->fd, in, want - c->got, 0);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0 || (c->step == ASKED && c->got <= 1 && c->got + (size_t)n > 1 && in[1 - c->got] != 0)) {
		fprintf(stderr, "load: the proxy refused or closed in step %d\n", (int)c->step);
		exit(1);
	}
	c->got += (size_t)n;
	if (c->got < want)
		return false;
	c->got = 0;
	c->step++;
	if (c->step == RUNNING)
		return true;
	memcpy(request + 4, &l->server.sin_addr, 4);
	memcpy(request + 8, &l->server.sin_port, 2);
	put(l, c, request, sizeof(request));
	return false;
}

/* The tunnel is open: say what the server shall do. */
static void begin(struct load *l, struct conn *c)
{
	char first[SMALL] = { 'e' };

	c->since_ns = now_ns();
	if (l->mode == 'i') {
		l->done++;
		return;
	}
	if (l->mode == 'b' || l->mode == 'u')
		first[0] = l->mode == 'b' ? 's' : 'd';
	put(l, c, first, l->mode == 'b' || l->mode == 'u' ? 1 : sizeof(first));
	if (l->mode == 'u')
		watch(l, c, EPOLLOUT, EPOLL_CTL_MOD);
}

static void run(struct load *l, struct conn *c)
{
	ssize_t n = l->mode == 'u' ? send(c->fd, chunk, CHUNK, MSG_NOSIGNAL) :
				     recv(c->fd, chunk, l->mode == 'b' ? CHUNK : SMALL - c->got, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		fprintf(stderr, "load: a tunnel ended early\n");
		exit(1);
	}
	l->bytes += (uint64_t)n;
	if (l->mode == 'b' || l->mode == 'u')
		return;
	c->got += (size_t)n;
	if (c->got < SMALL)
		return;
	c->got = 0;
	if (l->sample_count < SAMPLES_MAX)
		samples[l->sample_count++] = (double)(now_ns() - c->since_ns) / 1000.0;
	l->done++;
	if (l->mode == 'r') { /* round trips go on in the same tunnel */
		c->since_ns = now_ns();
		put(l, c, chunk, SMALL);
		return;
	}
	close(c->fd);
	start(l, c);
}

static void turn(struct load *l, int wait_ms)
{
	struct epoll_event events[256];
	int n = epoll_wait(l->loop_fd, events, 256, wait_ms);

	for (int i = 0; i < n; i++) {
		struct conn *c = events[i].data.ptr;

		if (c->step == RUNNING)
			run(l, c);
		else if (advance(l, c))
			begin(l, c);
	}
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void report(const struct load *l, double seconds)
{
	qsort(samples, l->sample_count, sizeof(samples[0]), by_size);
	printf("seconds %.3f bytes %llu done %llu failed %llu", seconds, (unsigned long long)l->bytes,
	       (unsigned long long)l->done, (unsigned long long)l->failed);
	if (l->sample_count > 0)
		printf(" p50_us %.0f p99_us %.0f", samples[l->sample_count / 2], samples[l->sample_count * 99 / 100]);
	printf("\n");
	fflush(stdout);
}

/* The other end: epoll, and a mode for each connection by its first byte. */
static void serve(const char *address, const char *port)
{
	static char mode_of[65536];
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	struct epoll_event events[256], e = { .events = EPOLLIN };
	int one = 1, loop_fd = epoll_create1(EPOLL_CLOEXEC);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, address, &at.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 4096) != 0)
		die("listen");
	e.data.fd = fd;
	epoll_ctl(loop_fd, EPOLL_CTL_ADD, fd, &e);
	for (;;) {
		int n = epoll_wait(loop_fd, events, 256, -1);

		for (int i = 0; i < n; i++) {
			int c = events[i].data.fd;
			ssize_t got;

			if (c == fd) {
				int fresh = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

				if (fresh < 0 || fresh >= (int)sizeof(mode_of))
					continue;
				setsockopt(fresh, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
				mode_of[fresh] = 0;
				e = (struct epoll_event){ .events = EPOLLIN, .data.fd = fresh };
				epoll_ctl(loop_fd, EPOLL_CTL_ADD, fresh, &e);
				continue;
			}
			if (events[i].events & EPOLLOUT) {
				if (send(c, chunk, CHUNK, MSG_NOSIGNAL) < 0 && errno != EAGAIN)
					close(c);
				continue;
			}
			got = recv(c, chunk, CHUNK, 0);
			if (got < 0 && errno == EAGAIN)
				continue;
			if (got > 0 && mode_of[c] == 0)
				mode_of[c] = chunk[0];
			if (got > 0 && mode_of[c] == 's') {
				e = (struct epoll_event){ .events = EPOLLOUT, .data.fd = c };
				epoll_ctl(loop_fd, EPOLL_CTL_MOD, c, &e);
			} else if (got <= 0 || (mode_of[c] == 'e' && send(c, chunk, (size_t)got, MSG_NOSIGNAL) != got)) {
				close(c);
			}
		}
	}
}

static void raise_descriptors(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		die("getrlimit");
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) != 0)
		die("setrlimit");
}

int main(int argc, char **argv)
{
	struct load l = { .loop_fd = epoll_create1(EPOLL_CLOEXEC) };
	int option;
	size_t connections = 8, count = 0;
	double seconds = 3;
	struct conn *conns;
	uint64_t begun_ns, until_ns;

	raise_descriptors();
	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		serve(argv[2], argv[3]);
	if (argc < 2 || strchr("rbui", argv[1][0]) == NULL)
		die("load: serve, rate, bulk, up, rr or idle");
	l.mode = strcmp(argv[1], "rate") == 0 ? 'c' : argv[1][0];
	optind = 2;
	while ((option = getopt(argc, argv, "p:d:c:t:n:")) != -1) {
		switch (option) {
		case 'p': l.proxy = endpoint(optarg); break;
		case 'd': l.server = endpoint(optarg); break;
		case 'c': connections = (size_t)atoi(optarg); break;
		case 't': seconds = atof(optarg); break;
		case 'n': count = (size_t)atoi(optarg); break;
		default: return 2;
		}
	}
	if (l.mode == 'i')
		connections = count;
	conns = calloc(connections, sizeof(*conns));
	if (conns == NULL)
		die("calloc");
	begun_ns = now_ns();
	until_ns = begun_ns + (uint64_t)(seconds * 1e9);
	for (size_t i = 0; i < connections; i++) {
		start(&l, &conns[i]);
		while (l.mode == 'i' && i >= l.done + 64 && now_ns() < until_ns) /* no queue shall overflow */
			turn(&l, 10);
	}
	while (now_ns() < until_ns && !(l.mode == 'i' && l.done == connections))
		turn(&l, 50);
	report(&l, (double)(now_ns() - begun_ns) * 1e-9);
	while (l.mode == 'i' && read(STDIN_FILENO, chunk, sizeof(chunk)) > 0)
		;
	return 0;
}
