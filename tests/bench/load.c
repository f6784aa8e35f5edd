/*
 * Load for measuring relays side by side. Sends only to the given proxy and server; every loop is bounded by -t or -n.
 *   load serve ADDRESS PORT                     the first byte of each connection says: e echo, d discard, s send for ever
 *   load rate|bulk|up|rr|idle -p PROXY:PORT -d SERVER:PORT [-c CONNECTIONS] [-t SECONDS] [-n COUNT]
 *   load guests -p PROXY:PORT                   what standard input says, see below
 * rate: connect, handshake, 64 bytes echoed, close. bulk, up: bytes down or up. rr: round trips of 64 bytes. idle: open COUNT and
 * hold them until standard input ends. Prints one line of "word number" pairs.
 * guests takes lines, and answers each with one; times are nanoseconds of the monotonic clock:
 *   open GROUP USER PASSWORD SOURCE HOST PORT COUNT    that many, 64 shaking hands at a time: "opened GROUP COUNT" when all were let
 *                                                      through or refused. Later, unasked: "ended GROUP LET REFUSED FIRST LAST".
 *   count GROUP                                        "count GROUP ASKED LET REFUSED ENDED"; asked: waiting for the reply
 *   drop GROUP                                         close what is open of it: "dropped GROUP"
 *   flip yes|no USER PASSWORD SOURCE HOST PORT         ask until that is the answer, 10 s at most: "flipped TIME TRIES"
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

#define GROUPS_MAX 256
#define AT_ONCE 64 /* handshakes, so that no queue overflows */

enum step { CONNECTING, GREETING, LOGIN, ASKED, RUNNING, REFUSED, ENDED };

/* Guests of one lease that ask for one target. */
struct group {
	char name[64];
	uint8_t login[3 + 255 + 255], request[7 + 255];
	size_t login_len, request_len;
	struct sockaddr_in source;
	struct conn *conns;
	size_t count, started, asked, let, refused, ended;
	uint64_t first_ns, last_ns; /* when guests were closed */
	int wanted;                 /* -1; else this one asks until the answer is yes (1) or no (0) */
	uint64_t tries, until_ns;
};

struct conn {
	int fd;
	enum step step;
	struct group *group; /* NULL: no login, and the one server */
	size_t got;          /* bytes of the message under way */
	uint64_t since_ns;
};

struct load {
	char mode; /* c rate, b bulk, u up, r round trips, i idle, g guests */
	int loop_fd;
	struct sockaddr_in proxy, server;
	uint64_t bytes, done, failed;
	size_t sample_count;
	struct group *groups[GROUPS_MAX];
	size_t group_count;
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

	*c = (struct conn){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), .group = c->group };
	if (c->fd < 0)
		die("socket");
	if (c->group != NULL && c->group->source.sin_addr.s_addr != 0 &&
	    bind(c->fd, (struct sockaddr *)&c->group->source, sizeof(c->group->source)) != 0)
		die("bind");
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

/* --- guests that come in groups --- */

static void start_more(struct load *l, struct group *g)
{
	while (g->started < g->count && g->started < g->let + g->refused + AT_ONCE)
		start(l, &g->conns[g->started++]);
}

static void say_opened(struct load *l, struct group *g)
{
	start_more(l, g);
	if (g->let + g->refused == g->count && g->wanted < 0)
		printf("opened %s %zu\n", g->name, g->count);
}

static void end(struct group *g, struct conn *c)
{
	close(c->fd);
	c->step = ENDED;
	g->last_ns = now_ns();
	g->first_ns = g->first_ns == 0 ? g->last_ns : g->first_ns;
	if (++g->ended == g->count && g->wanted < 0)
		printf("ended %s %zu %zu %llu %llu\n", g->name, g->let, g->refused, (unsigned long long)g->first_ns,
		       (unsigned long long)g->last_ns);
}

/* The one that asks until the answer is the wanted one. */
static void try_again(struct load *l, struct group *g, struct conn *c, bool is_let)
{
	const struct timespec pause = { 0, 300000 };

	close(c->fd);
	c->step = ENDED;
	g->tries++;
	if (is_let == (g->wanted == 1) || now_ns() > g->until_ns) {
		printf("flipped %llu %llu\n", is_let == (g->wanted == 1) ? (unsigned long long)now_ns() : 0ULL, (unsigned long long)g->tries);
		return;
	}
	nanosleep(&pause, NULL);
	start(l, c);
}

static void on_let(struct load *l, struct conn *c)
{
	struct group *g = c->group;

	g->asked--;
	g->let++;
	if (g->wanted >= 0)
		try_again(l, g, c, true);
	else
		say_opened(l, g);
}

/* Refused, or the other side ended before it had answered. */
static void on_refused(struct load *l, struct conn *c)
{
	struct group *g = c->group;

	g->asked -= c->step == ASKED;
	g->refused++;
	if (g->wanted >= 0) {
		try_again(l, g, c, false);
		return;
	}
	c->step = REFUSED;
	say_opened(l, g);
}

static void on_bytes(struct conn *c)
{
	ssize_t n = recv(c->fd, chunk, CHUNK, 0);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		end(c->group, c);
}

static struct group *find_group(const struct load *l, const char *name)
{
	for (size_t i = 0; i < l->group_count; i++)
		if (strcmp(l->groups[i]->name, name) == 0)
			return l->groups[i];
	return NULL;
}

static void drop_group(struct load *l, struct group *g)
{
	for (size_t i = 0; i < g->started; i++)
		if (g->conns[i].step != ENDED)
			close(g->conns[i].fd);
	for (size_t i = 0; i < l->group_count; i++)
		if (l->groups[i] == g)
			l->groups[i] = l->groups[--l->group_count];
	free(g->conns);
	free(g);
}

static size_t text_bytes(uint8_t *out, const char *text)
{
	out[0] = (uint8_t)strlen(text);
	memcpy(out + 1, text, out[0]);
	return 1u + out[0];
}

static struct group *make_group(struct load *l, const char *name, char words[5][256], size_t count)
{
	struct group *g = calloc(1, sizeof(*g));
	uint16_t port = htons((uint16_t)atoi(words[4]));
	struct in_addr address;

	if (g == NULL || l->group_count == GROUPS_MAX || (g->conns = calloc(count, sizeof(*g->conns))) == NULL)
		die("load: too many groups");
	snprintf(g->name, sizeof(g->name), "%s", name);
	g->count = count;
	g->wanted = -1;
	for (size_t i = 0; i < count; i++)
		g->conns[i].group = g;
	g->login[0] = 1;
	g->login_len = 1 + text_bytes(g->login + 1, words[0]);
	g->login_len += text_bytes(g->login + g->login_len, words[1]);
	g->source.sin_family = AF_INET;
	inet_pton(AF_INET, words[2], &g->source.sin_addr);
	memcpy(g->request, "\5\1\0", 3);
	g->request_len = 4;
	if (inet_pton(AF_INET, words[3], &address) == 1) {
		g->request[3] = 1;
		memcpy(g->request + 4, &address, 4);
		g->request_len += 4;
	} else {
		g->request[3] = 3;
		g->request_len += text_bytes(g->request + 4, words[3]);
	}
	memcpy(g->request + g->request_len, &port, 2);
	g->request_len += 2;
	l->groups[l->group_count++] = g;
	return g;
}

static void command(struct load *l, char *line)
{
	char verb[16] = "", name[64] = "", words[5][256] = { "" };
	unsigned count = 1;
	int n = sscanf(line, "%15s %63s %255s %255s %255s %255s %255s %u", verb, name, words[0], words[1], words[2], words[3], words[4], &count);
	struct group *g = find_group(l, name);

	if (strcmp(verb, "open") == 0 && n == 8 && g == NULL && count > 0) {
		start_more(l, make_group(l, name, words, count));
	} else if (strcmp(verb, "flip") == 0 && n == 7) {
		if (g != NULL)
			drop_group(l, g);
		g = make_group(l, name, words, 1);
		g->wanted = strcmp(name, "yes") == 0;
		g->until_ns = now_ns() + 10000000000u;
		start_more(l, g);
	} else if (strcmp(verb, "count") == 0 && g != NULL) {
		printf("count %s %zu %zu %zu %zu\n", name, g->asked, g->let, g->refused, g->ended);
	} else if (strcmp(verb, "drop") == 0 && g != NULL) {
		drop_group(l, g);
		printf("dropped %s\n", name);
	} else {
		fprintf(stderr, "load: what does this line mean: %s\n", line);
		exit(2);
	}
}

/* Lines of standard input; false at its end. */
static bool take_commands(struct load *l)
{
	static char bytes[4096];
	static size_t len;
	ssize_t n = read(STDIN_FILENO, bytes + len, sizeof(bytes) - 1 - len);
	char *end_of_line;

	if (n <= 0)
		return false;
	len += (size_t)n;
	bytes[len] = '\0';
	while ((end_of_line = strchr(bytes, '\n')) != NULL) {
		*end_of_line = '\0';
		command(l, bytes);
		len -= (size_t)(end_of_line + 1 - bytes);
		memmove(bytes, end_of_line + 1, len + 1);
	}
	return len < sizeof(bytes) - 1;
}

static void refuse(struct load *l, struct conn *c)
{
	if (c->group == NULL) {
		fprintf(stderr, "load: the proxy refused or closed in step %d\n", (int)c->step);
		exit(1);
	}
	on_refused(l, c);
}

/* What follows an answer that was whole and good. */
static void answer(struct load *l, struct conn *c)
{
	uint8_t request[10] = { 5, 1, 0, 1 };

	c->got = 0;
	c->step = c->step == GREETING && c->group == NULL ? ASKED : c->step + 1;
	if (c->step == LOGIN) {
		put(l, c, c->group->login, c->group->login_len);
	} else if (c->step == ASKED && c->group != NULL) {
		c->group->asked++;
		put(l, c, c->group->request, c->group->request_len);
	} else if (c->step == ASKED) {
		memcpy(request + 4, &l->server.sin_addr, 4);
		memcpy(request + 8, &l->server.sin_port, 2);
		put(l, c, request, sizeof(request));
	}
}

/* One step of the handshake; true once the tunnel is open. */
static bool advance(struct load *l, struct conn *c)
{
	uint8_t in[16], greeting[3] = { 5, 1, c->group == NULL ? 0 : 2 };
	size_t want = c->step == ASKED ? 10 : 2;
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
	/* The second byte of each answer says how it went; a method is as good as zero. */
	if (n <= 0 || (c->step != GREETING && c->got <= 1 && c->got + (size_t)n > 1 && in[1 - c->got] != 0)) {
		refuse(l, c);
		return false;
	}
	c->got += (size_t)n;
	if (c->got == want)
		answer(l, c);
	return c->step == RUNNING;
}

/* The tunnel is open: say what the server shall do. */
static void begin(struct load *l, struct conn *c)
{
	char first[SMALL] = { 'e' };

	c->since_ns = now_ns();
	if (l->mode == 'g') {
		on_let(l, c);
		return;
	}
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

/* False once standard input has ended. */
static bool turn(struct load *l, int wait_ms)
{
	struct epoll_event events[256];
	int n = epoll_wait(l->loop_fd, events, 256, wait_ms);
	bool is_commanded = false;

	for (int i = 0; i < n; i++) {
		struct conn *c = events[i].data.ptr;

		if (c == NULL)
			is_commanded = true;
		else if (c->step >= RUNNING && l->mode == 'g')
			on_bytes(c);
		else if (c->step == RUNNING)
			run(l, c);
		else if (advance(l, c))
			begin(l, c);
	}
	/* Last: a command may free what the events above point to. */
	return !is_commanded || take_commands(l);
}

/* Bounded by who gives the orders. */
static int serve_commands(struct load *l)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = NULL };

	if (epoll_ctl(l->loop_fd, EPOLL_CTL_ADD, STDIN_FILENO, &e) != 0)
		die("standard input");
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (turn(l, -1))
		;
	return 0;
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
	if (argc < 2 || strchr("rbuig", argv[1][0]) == NULL)
		die("load: serve, rate, bulk, up, rr, idle or guests");
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
	if (l.mode == 'g')
		return serve_commands(&l);
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
