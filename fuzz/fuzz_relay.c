/*
 * Two ends that pour, sip, finish and hang up in any order, and filters that answer anything: a relay between real sockets under
 * scripted time. Whatever happens it must come to rest, keep the order, let nothing pass unjudged, lose nothing and leave nothing.
 * Input: byte 0 options, byte 1 hold limit, then pairs of operation and size from the front, filter answers from the back.
 */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/attr.h"
#include "fuzz/require.h"
#include "net/relay.h"
#include "tests/fake/loop_fake.h"

enum {
	TURNS_MAX = 5000,
	OPERATIONS_MAX = 120,
	POURED_MAX = 2 << 20,
	RANGES_MAX = 512,
	INJECTED = 0xff,  /* stands out of the stream, whose bytes are below 0x80 */
	REPLACED = 0xfe,
};

struct range {
	uint64_t from, to;
};

/* One way: what went in, what may come out, what did. */
struct model {
	int writer, reader;      /* our ends; -1 once closed */
	uint64_t poured;         /* bytes given to the writer's socket, `first` included */
	uint64_t judged;         /* of these the filter has let pass or replaced */
	uint64_t heard;          /* of these came out (or were replaced before that) */
	uint64_t injected;
	struct range gone[RANGES_MAX]; /* replaced */
	size_t gone_count;
	bool is_filtered, finished, saw_end;
};

struct world {
	struct loop *loop;
	struct relay *relay;
	struct model way[RELAY_WAYS];
	const uint8_t *answers;  /* the next one is the last of these */
	size_t answers_left;
	size_t hold_max;
	bool let_all_pass;
	unsigned ends;
	enum relay_end why;
};

static struct pump_worker pump;
static struct metrics metrics;

static uint8_t byte_at(uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ULL;

	return (uint8_t)((x >> 56 ^ x >> 24) & 0x7f);
}

static unsigned is_ready(void *arg, int fd, unsigned what)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
	unsigned ready = 0;

	if (poll(&p, 1, 0) <= 0)
		return 0;
	/* As libevent reports epoll's conditions. */
	if ((p.revents & (POLLIN | POLLERR | POLLHUP)) != 0)
		ready |= LOOP_READ;
	if ((p.revents & (POLLOUT | POLLERR | POLLHUP)) != 0)
		ready |= LOOP_WRITE;
	return ready & what;
}

static void on_end(void *arg, enum relay_end why)
{
	struct world *w = arg;

	w->ends++;
	w->why = why;
}

static void on_flushed(void *arg)
{
}

static uint8_t next_answer(struct world *w)
{
	return w->answers_left == 0 ? 1 : w->answers[--w->answers_left];
}

/* The bytes must go on where the last judgement ended, whatever was held in between. */
static struct relay_filter_answer on_filter(void *arg, enum relay_way way, const uint8_t *bytes, size_t len, bool end)
{
	static const uint8_t instead[300] = { [0 ... 299] = REPLACED };
	struct world *w = arg;
	struct model *m = &w->way[way];
	struct relay_filter_answer a = { .action = RELAY_PASS, .len = len };
	uint8_t answer = w->let_all_pass ? 1 : next_answer(w);

	REQUIRE(m->judged + len <= m->poured);
	REQUIRE(!end || m->judged + len == m->poured);
	for (size_t i = 0; i < len; i++)
		REQUIRE(bytes[i] == byte_at(m->judged + i));
	if (len == 0)
		a.action = RELAY_HOLD;
	switch (answer % 16) {
	case 0:
		a.action = RELAY_HOLD;
		break;
	case 1:
		break;
	case 2:
		a.len = len < answer ? len : answer;
		break;
	case 3:
		if (len == 0 || m->gone_count == RANGES_MAX)
			break;
		a = (struct relay_filter_answer){ RELAY_REPLACE, len < 5 ? len : 5, instead, answer };
		m->gone[m->gone_count++] = (struct range){ m->judged, m->judged + a.len };
		break;
	case 4:
		a.action = RELAY_STALL;
		break;
	case 5:
		if (answer == 5)
			a.action = RELAY_END;
		break;
	case 6:
		if (answer != 6)
			break;
		a.action = RELAY_OPAQUE;
		m->is_filtered = false;
		break;
	case 7:
		m->injected += relay_inject(w->relay, way, (const uint8_t[]){ INJECTED }, 1) == ERR_OK;
		break;
	case 8:
		m = &w->way[1 - way];
		m->injected += relay_inject(w->relay, 1 - way, (const uint8_t[]){ INJECTED }, 1) == ERR_OK;
		m = &w->way[way];
		break;
	case 9:
		relay_resume(w->relay, answer < 128 ? way : 1 - way);
		break;
	case 10:
		relay_when_flushed(w->relay, way, on_flushed, w);
		break;
	default:
		break;
	}
	if (a.action == RELAY_PASS || a.action == RELAY_REPLACE)
		m->judged += a.len;
	return a;
}

static void pour(struct model *m, size_t len, uint64_t limit)
{
	static uint8_t bytes[65536];

	while (len > 0 && m->writer >= 0 && !m->finished && m->poured < limit) {
		size_t n = len < sizeof(bytes) ? len : sizeof(bytes);
		ssize_t sent;

		for (size_t i = 0; i < n; i++)
			bytes[i] = byte_at(m->poured + i);
		sent = send(m->writer, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent <= 0)
			return;
		m->poured += (uint64_t)sent;
		len -= (size_t)sent;
	}
}

static void skip_replaced(struct model *m)
{
	for (size_t i = 0; i < m->gone_count; i++) {
		if (m->gone[i].from == m->heard)
			m->heard = m->gone[i].to;
	}
}

static void check_heard(struct model *m, uint8_t byte)
{
	if (byte == INJECTED) {
		REQUIRE(m->injected > 0);
		m->injected--;
		return;
	}
	skip_replaced(m);
	if (byte == REPLACED)
		return;
	REQUIRE(byte == byte_at(m->heard));
	m->heard++;
	REQUIRE(m->heard <= m->poured);
	REQUIRE(!m->is_filtered || m->heard <= m->judged);
}

/* Read; false when nothing came. */
static bool sip(struct world *w, struct model *m, size_t max)
{
	static uint8_t bytes[65536];
	ssize_t n;

	if (m->reader < 0 || m->saw_end)
		return false;
	n = recv(m->reader, bytes, max < sizeof(bytes) ? max : sizeof(bytes), MSG_DONTWAIT);
	for (ssize_t i = 0; i < n; i++)
		check_heard(m, bytes[i]);
	if (n == 0) {
		/* An end is the sender's own, and comes after all that it said. */
		m->saw_end = true;
		skip_replaced(m);
		REQUIRE(m->finished || m->writer < 0);
		REQUIRE(m->heard == m->poured);
	}
	return n > 0;
}

static void finish(struct model *m)
{
	if (m->writer >= 0)
		shutdown(m->writer, SHUT_WR);
	m->finished = true;
}

/* Hang up; with bytes unread the other side sees a reset. */
static void hang_up(struct world *w, enum relay_way way)
{
	struct model *m = &w->way[way];

	if (m->writer >= 0)
		close(m->writer);
	m->writer = w->way[1 - way].reader = -1;
	m->finished = true;
}

static void rest(struct world *w)
{
	REQUIRE(loop_fake_settle(w->loop, TURNS_MAX));
	REQUIRE(w->ends <= 1);
}

static void operate(struct world *w, uint8_t operation, uint8_t size)
{
	enum relay_way way = operation >= 128 ? RELAY_DOWN : RELAY_UP;
	size_t len = (size_t)size * size * 4 + 1;

	switch (operation % 12) {
	case 0:
	case 1:
	case 2:
		pour(&w->way[way], len, POURED_MAX);
		break;
	case 3:
	case 4:
	case 5:
		sip(w, &w->way[way], len);
		break;
	case 6:
		finish(&w->way[way]);
		break;
	case 7:
		if (size < 32)
			hang_up(w, way);
		break;
	case 8: {
		uint8_t bytes[255];

		memset(bytes, INJECTED, sizeof(bytes));
		w->way[way].injected += relay_inject(w->relay, way, bytes, size) == ERR_OK ? size : 0;
		break;
	}
	case 9:
		relay_resume(w->relay, way);
		break;
	case 10:
		REQUIRE(loop_fake_advance(w->loop, (uint64_t)size * 10, TURNS_MAX));
		break;
	default:
		relay_when_flushed(w->relay, way, on_flushed, w);
		break;
	}
	rest(w);
}

/* Nobody is in the way any more: everything said must be heard, however long it waited. */
static void let_it_run_out(struct world *w)
{
	bool moved = true;

	w->let_all_pass = true;
	for (enum relay_way way = 0; way < RELAY_WAYS; way++) {
		relay_resume(w->relay, way);
		pour(&w->way[way], 1, UINT64_MAX);
	}
	for (unsigned idle = 0; idle < 3; idle = moved ? 0 : idle + 1) {
		REQUIRE(loop_fake_advance(w->loop, 200, TURNS_MAX));
		moved = false;
		for (enum relay_way way = 0; way < RELAY_WAYS; way++) {
			while (sip(w, &w->way[way], 65536))
				moved = true;
		}
	}
	for (enum relay_way way = 0; way < RELAY_WAYS; way++) {
		struct model *m = &w->way[way];

		skip_replaced(m);
		if (w->ends == 0 && m->reader >= 0 && m->writer >= 0)
			REQUIRE(m->heard == m->poured);
		if (w->ends == 0 && m->reader >= 0 && m->finished)
			REQUIRE(m->saw_end);
	}
	for (enum relay_way way = 0; way < RELAY_WAYS && w->ends == 1 && w->why == RELAY_END_DONE; way++)
		REQUIRE(w->way[way].finished && (w->way[way].reader < 0 || w->way[way].saw_end));
}

static void choose(const uint8_t *data, struct relay_options *o, struct relay_rate *rate, struct world *w)
{
	uint8_t flags = data[0];

	*o = (struct relay_options){ .filter_arg = w, .may_splice = (flags & 4) != 0 };
	for (enum relay_way way = 0; way < RELAY_WAYS; way++) {
		if ((flags >> way & 1) == 0)
			continue;
		w->way[way].is_filtered = true;
		o->way[way].filter = on_filter;
		o->way[way].hold_max = data[1] * 64u;
	}
	o->way[RELAY_DOWN].stalled = (flags & 8) != 0;
	if ((flags & 16) != 0)
		o->unsent_max = 1500;
	if ((flags & 32) != 0)
		o->rounds_per_wakeup = 1;
	if ((flags & 64) != 0) {
		rate->bytes_per_s = 400000;
		o->rate = rate;
	}
}

static void open_ends(struct world *w, int fds[4], bool small)
{
	int buffer = 5000;

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds + 2) == 0);
	for (size_t i = 0; i < 4 && small; i++)
		REQUIRE(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) == 0);
	w->way[RELAY_UP].writer = w->way[RELAY_DOWN].reader = fds[0];
	w->way[RELAY_DOWN].writer = w->way[RELAY_UP].reader = fds[3];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct world w;
	struct relay_options options;
	struct relay_rate rate = { 0 };
	uint8_t first[64];
	size_t first_len;
	int fds[4];

	if (len < 3)
		return 0;
	if (pump.scratch == NULL)
		REQUIRE(pump_worker_init(&pump, 2) == ERR_OK);
	memset(&w, 0, sizeof(w));
	w.loop = loop_create();
	REQUIRE(w.loop != NULL);
	loop_fake_script(w.loop, is_ready, NULL, NULL);
	choose(data, &options, &rate, &w);
	open_ends(&w, fds, (data[0] & 128) != 0);
	first_len = data[2] % sizeof(first);
	for (size_t i = 0; i < first_len; i++)
		first[i] = byte_at(i);
	w.way[RELAY_UP].poured = first_len;
	w.answers = data + 3;
	w.answers_left = len - 3;
	REQUIRE(relay_start(w.loop, &pump, &metrics, fds[1], fds[2], &options, first, first_len, on_end, &w,
			    &w.relay) == ERR_OK);
	for (size_t at = 3; at + 1 < len && at < 2 * OPERATIONS_MAX; at += 2)
		operate(&w, data[at], data[at + 1]);
	let_it_run_out(&w);
	relay_destroy(w.relay);
	REQUIRE(pump.pipes_lent == 0 && pump.pipe_count == 2);
	REQUIRE(loop_fake_watch_count(w.loop) == 0 && loop_fake_timer_count(w.loop) == 0);
	REQUIRE(loop_fake_deferred_count(w.loop) == 0);
	loop_destroy(w.loop);
	for (enum relay_way way = 0; way < RELAY_WAYS; way++)
		hang_up(&w, way);
	close(fds[1]);
	close(fds[2]);
	return 0;
}
