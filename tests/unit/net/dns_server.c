/* See dns_server.h. One thread, one poll; the script and the log are under a lock, all else is the thread's. */
#include "dns_server.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNS_MAX 64
#define DELAYED_MAX 256
#define HEADER 12

struct conn {
	int fd; /* -1: free */
	uint8_t in[DNS_MESSAGE_MAX];
	size_t in_len;
	uint8_t out[DNS_MESSAGE_MAX * 2];
	size_t out_len, out_at;
	size_t step;          /* bytes per send; 0: all */
	unsigned step_ms;
	uint64_t due_ms;
	bool close_when_sent;
	bool endless;         /* goes on sending zeros */
};

struct delayed {
	uint64_t due_ms; /* 0: free */
	struct sockaddr_storage to;
	socklen_t to_len;
	uint8_t query[DNS_MESSAGE_MAX];
	size_t len;
};

struct dns_server {
	struct endpoint at;
	int udp, tcp, stop;
	pthread_t thread;
	pthread_mutex_t lock;
	struct dns_script script;
	struct dns_asked *log;
	size_t log_count;
	struct conn conns[CONNS_MAX];
	struct delayed delayed[DELAYED_MAX];
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static uint16_t be16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, unsigned v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static void remember(struct dns_server *s, const uint8_t *query, size_t len, uint16_t port, bool tcp)
{
	struct dns_asked *a = &s->log[s->log_count];
	size_t n = 0, at = HEADER;

	if (s->log_count == DNS_SERVER_LOG_MAX)
		return;
	while (at < len && query[at] != 0 && n + query[at] + 1u < sizeof(a->name)) {
		if (n > 0)
			a->name[n++] = '.';
		memcpy(a->name + n, query + at + 1, query[at]);
		n += query[at];
		at += query[at] + 1u;
	}
	a->name[n] = '\0';
	a->id = be16(query);
	a->type = be16(query + at + 1);
	a->from_port = port;
	a->over_tcp = tcp;
	a->has_opt = be16(query + 10) == 1;
	s->log_count++;
}

static uint16_t port_of(const struct sockaddr_storage *sa)
{
	struct endpoint at;

	return addr_from_sockaddr((const struct sockaddr *)sa, &at) ? at.port : 0;
}

static void answer_udp(struct dns_server *s, const struct dns_script *script, const uint8_t *query, size_t len,
		       const struct sockaddr_storage *to, socklen_t to_len)
{
	uint8_t out[DNS_MESSAGE_MAX];

	for (unsigned round = 0; round < (script->repeat > 0 ? script->repeat : 1); round++) {
		for (size_t i = 0; i < script->act_count; i++) {
			size_t out_len = dns_message_make(script->acts[i], query, len,
						 script->addr_count > 0 ? script->addr_count : 1, out);

			sendto(s->udp, out, out_len, 0, (const struct sockaddr *)to, to_len);
		}
	}
}

static void on_udp(struct dns_server *s)
{
	struct sockaddr_storage from;
	socklen_t from_len = sizeof(from);
	uint8_t query[512];
	ssize_t len = recvfrom(s->udp, query, sizeof(query), 0, (struct sockaddr *)&from, &from_len);
	struct dns_script script;

	if (len < HEADER || dns_message_question_len(query, (size_t)len) == 0)
		return;
	pthread_mutex_lock(&s->lock);
	remember(s, query, (size_t)len, port_of(&from), false);
	script = s->script;
	pthread_mutex_unlock(&s->lock);
	if (script.delay_ms == 0) {
		answer_udp(s, &script, query, (size_t)len, &from, from_len);
		return;
	}
	for (size_t i = 0; i < DELAYED_MAX; i++) {
		struct delayed *d = &s->delayed[i];

		if (d->due_ms != 0)
			continue;
		d->due_ms = now_ms() + script.delay_ms;
		d->to = from;
		d->to_len = from_len;
		d->len = (size_t)len;
		memcpy(d->query, query, (size_t)len);
		break;
	}
}

static void on_accept(struct dns_server *s)
{
	int fd = accept4(s->tcp, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	for (size_t i = 0; fd >= 0 && i < CONNS_MAX; i++) {
		if (s->conns[i].fd >= 0)
			continue;
		s->conns[i] = (struct conn){ .fd = fd };
		return;
	}
	if (fd >= 0)
		close(fd);
}

static void hang_up(struct conn *c)
{
	close(c->fd);
	c->fd = -1;
}

static void add_message(struct conn *c, enum dns_act act, const uint8_t *query, size_t len, unsigned addr_count)
{
	size_t n = dns_message_make(act, query, len, addr_count, c->out + c->out_len + 2);

	put16(c->out + c->out_len, (unsigned)n);
	c->out_len += n + 2;
}

static void choose_answer(struct conn *c, const struct dns_script *script, const uint8_t *query, size_t len)
{
	unsigned count = script->addr_count > 0 ? script->addr_count : 1;

	switch (script->tcp) {
	case DNS_TCP_ANSWER:
		add_message(c, DNS_ACT_ANSWER, query, len, count);
		break;
	case DNS_TCP_BYTES:
		c->step = 1;
		add_message(c, DNS_ACT_ANSWER, query, len, count);
		break;
	case DNS_TCP_TRICKLE:
		c->step = 1;
		c->step_ms = 20;
		c->endless = true;
		add_message(c, DNS_ACT_ANSWER, query, len, count);
		put16(c->out, 0xffff);
		break;
	case DNS_TCP_CUT:
		add_message(c, DNS_ACT_ANSWER, query, len, count);
		c->out_len = 2;
		c->close_when_sent = true;
		break;
	case DNS_TCP_EMPTY:
		c->out_len = 2;
		put16(c->out, 0);
		break;
	case DNS_TCP_CLOSE:
		c->close_when_sent = true;
		break;
	case DNS_TCP_SILENCE:
		break;
	case DNS_TCP_WRONG_ID:
		add_message(c, DNS_ACT_WRONG_ID, query, len, count);
		add_message(c, DNS_ACT_ANSWER, query, len, count);
		break;
	case DNS_TCP_LOWER_CASE:
		add_message(c, DNS_ACT_LOWER_CASE, query, len, count);
		break;
	case DNS_TCP_REFLECT:
		add_message(c, DNS_ACT_REFLECT, query, len, count);
		break;
	case DNS_TCP_FORMERR:
		add_message(c, DNS_ACT_FORMERR, query, len, count);
		break;
	case DNS_TCP_TRUNCATED:
		add_message(c, DNS_ACT_TRUNCATED, query, len, count);
		break;
	}
}

static void on_conn(struct dns_server *s, struct conn *c)
{
	ssize_t got = recv(c->fd, c->in + c->in_len, sizeof(c->in) - c->in_len, 0);
	struct dns_script script;
	size_t len;

	if (got <= 0) {
		if (got == 0 || errno != EAGAIN)
			hang_up(c);
		return;
	}
	c->in_len += (size_t)got;
	if (c->in_len < 2 || c->out_len > 0)
		return;
	len = be16(c->in);
	if (c->in_len < len + 2)
		return;
	pthread_mutex_lock(&s->lock);
	remember(s, c->in + 2, len, 0, true);
	script = s->script;
	pthread_mutex_unlock(&s->lock);
	choose_answer(c, &script, c->in + 2, len);
	if (c->close_when_sent && c->out_len == 0)
		hang_up(c);
}

static void send_some(struct conn *c, uint64_t now)
{
	static const uint8_t zero;
	bool whole = c->out_at == c->out_len;
	size_t left = c->out_len - c->out_at;
	ssize_t sent;

	if (c->fd < 0 || now < c->due_ms || (whole && !c->endless))
		return;
	sent = whole ? send(c->fd, &zero, 1, MSG_NOSIGNAL) :
		       send(c->fd, c->out + c->out_at, c->step > 0 && left > c->step ? c->step : left, MSG_NOSIGNAL);
	if (sent < 0) {
		if (errno != EAGAIN)
			hang_up(c);
		return;
	}
	c->out_at += whole ? 0 : (size_t)sent;
	c->due_ms = now + c->step_ms;
	if (c->out_at == c->out_len && c->close_when_sent)
		hang_up(c);
}

static void *serve(void *arg)
{
	struct dns_server *s = arg;

	for (;;) {
		struct pollfd fds[3 + CONNS_MAX] = { { s->stop, POLLIN, 0 }, { s->udp, POLLIN, 0 }, { s->tcp, POLLIN, 0 } };
		bool busy = false;
		uint64_t now;

		for (size_t i = 0; i < CONNS_MAX; i++) {
			struct conn *c = &s->conns[i];

			fds[3 + i] = (struct pollfd){ .fd = c->fd, .events = POLLIN };
			busy = busy || (c->fd >= 0 && (c->out_at < c->out_len || c->endless));
		}
		for (size_t i = 0; i < DELAYED_MAX; i++)
			busy = busy || s->delayed[i].due_ms != 0;
		poll(fds, 3 + CONNS_MAX, busy ? 1 : -1);
		if (fds[0].revents != 0)
			return NULL;
		if (fds[1].revents != 0)
			on_udp(s);
		for (size_t i = 0; i < CONNS_MAX; i++) {
			if (fds[3 + i].revents != 0 && s->conns[i].fd == fds[3 + i].fd)
				on_conn(s, &s->conns[i]);
		}
		if (fds[2].revents != 0)
			on_accept(s);
		now = now_ms();
		for (size_t i = 0; i < CONNS_MAX; i++)
			send_some(&s->conns[i], now);
		for (size_t i = 0; i < DELAYED_MAX; i++) {
			struct delayed *d = &s->delayed[i];
			struct dns_script script;

			if (d->due_ms == 0 || d->due_ms > now)
				continue;
			pthread_mutex_lock(&s->lock);
			script = s->script;
			pthread_mutex_unlock(&s->lock);
			answer_udp(s, &script, d->query, d->len, &d->to, d->to_len);
			d->due_ms = 0;
		}
	}
}

static bool bind_both(struct dns_server *s, bool on_v6, uint16_t port)
{
	static const uint8_t v4[4] = { 127, 0, 0, 1 }, v6[16] = { [15] = 1 };
	struct sockaddr_storage sa;
	socklen_t len;
	int one = 1;

	s->at = (struct endpoint){ .addr = on_v6 ? addr_v6(v6) : addr_v4(v4), .port = port };
	len = endpoint_to_sockaddr(&s->at, &sa);
	s->udp = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	s->tcp = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert(s->udp >= 0 && s->tcp >= 0);
	setsockopt(s->tcp, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s->udp, (struct sockaddr *)&sa, len) == 0 && bind(s->tcp, (struct sockaddr *)&sa, len) == 0 &&
	    listen(s->tcp, 64) == 0)
		return true;
	close(s->udp);
	close(s->tcp);
	return false;
}

struct dns_server *dns_server_start(const struct dns_script *script)
{
	struct dns_server *s = calloc(1, sizeof(*s));
	unsigned first = (unsigned)getpid() * 31u, tries = 0;

	cr_assert_not_null(s);
	s->log = calloc(DNS_SERVER_LOG_MAX, sizeof(*s->log));
	cr_assert_not_null(s->log);
	/* Below the ports that the kernel chooses from, so that no client takes one. */
	while (!bind_both(s, script->on_v6, (uint16_t)(20000 + (first + tries) % 12000)))
		cr_assert(++tries < 1000);
	for (size_t i = 0; i < CONNS_MAX; i++)
		s->conns[i].fd = -1;
	s->script = *script;
	s->stop = eventfd(0, EFD_CLOEXEC);
	cr_assert(s->stop >= 0);
	cr_assert_eq(pthread_mutex_init(&s->lock, NULL), 0);
	cr_assert_eq(pthread_create(&s->thread, NULL, serve, s), 0);
	return s;
}

void dns_server_stop(struct dns_server *s)
{
	uint64_t one = 1;

	if (s == NULL)
		return;
	cr_assert_eq(write(s->stop, &one, sizeof(one)), (ssize_t)sizeof(one));
	pthread_join(s->thread, NULL);
	for (size_t i = 0; i < CONNS_MAX; i++) {
		if (s->conns[i].fd >= 0)
			close(s->conns[i].fd);
	}
	close(s->udp);
	close(s->tcp);
	close(s->stop);
	pthread_mutex_destroy(&s->lock);
	free(s->log);
	free(s);
}

void dns_server_script(struct dns_server *s, const struct dns_script *script)
{
	pthread_mutex_lock(&s->lock);
	s->script = *script;
	pthread_mutex_unlock(&s->lock);
}

struct endpoint dns_server_at(const struct dns_server *s)
{
	return s->at;
}

size_t dns_server_asked_count(struct dns_server *s)
{
	size_t count;

	pthread_mutex_lock(&s->lock);
	count = s->log_count;
	pthread_mutex_unlock(&s->lock);
	return count;
}

struct dns_asked dns_server_asked(struct dns_server *s, size_t index)
{
	struct dns_asked a;

	pthread_mutex_lock(&s->lock);
	cr_assert(index < s->log_count);
	a = s->log[index];
	pthread_mutex_unlock(&s->lock);
	return a;
}
