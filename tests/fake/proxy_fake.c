/* See proxy_fake.h. */
#include "proxy_fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "compiler/compile.h"
#include "loop_fake.h"
#include "socket_fake.h"

#define SEGMENTS_MAX 40
#define TURNS_MAX 200000
#define GATE_FOREVER_NS ((uint64_t)1 << 62)

static void must(bool holds)
{
	if (!holds)
		abort();
}

/* --- name servers --- */

static const char *read_question(const uint8_t *query, size_t len, char *out_name, uint16_t *out_type)
{
	size_t at = 12, to = 0;

	while (at < len && query[at] != 0) {
		size_t label = query[at++];

		if (to > 0)
			out_name[to++] = '.';
		for (size_t i = 0; i < label; i++)
			out_name[to++] = text_lower((char)query[at++]);
	}
	out_name[to] = '\0';
	*out_type = (uint16_t)(query[at + 1] << 8 | query[at + 2]);
	return out_name;
}

static struct proxy_fake_answer *find_answer(struct proxy_fake *p, const char *name, uint16_t type)
{
	struct proxy_fake_answer *found = NULL;

	for (size_t i = 0; i < p->answer_count; i++) {
		struct proxy_fake_answer *a = &p->answers[i];

		if (a->type != type || strcmp(a->name, name) != 0)
			continue;
		found = a;
		if (a->used == 0)
			break;
	}
	if (found != NULL)
		found->used++;
	return found;
}

static size_t put_answer(const struct proxy_fake_answer *a, const uint8_t *query, uint8_t *out)
{
	static const uint8_t stranger[] = { 8, 's', 't', 'r', 'a', 'n', 'g', 'e', 'r', 4, 't', 'e', 's', 't', 0 };
	size_t at = 12;

	while (query[at] != 0)
		at += 1u + query[at];
	at += 5;
	memcpy(out, query, at);
	memset(out + 2, 0, 10);
	out[2] = 0x81;
	out[3] = (uint8_t)(0x80 | (a->act == PROXY_FAKE_NXDOMAIN ? 3 : a->act == PROXY_FAKE_SERVFAIL ? 2 : 0));
	out[5] = 1;
	if (a->act != PROXY_FAKE_ANSWER && a->act != PROXY_FAKE_STRANGER)
		return at;
	out[7] = (uint8_t)a->addr_count;
	for (size_t i = 0; i < a->addr_count; i++) {
		size_t len = addr_len(&a->addrs[i]);
		const uint8_t fixed[10] = { (uint8_t)(a->type >> 8),   (uint8_t)a->type,	      0, 1, (uint8_t)(a->ttl_s >> 24),
					    (uint8_t)(a->ttl_s >> 16), (uint8_t)(a->ttl_s >> 8), (uint8_t)a->ttl_s,
					    0,			       (uint8_t)len };

		if (a->act == PROXY_FAKE_STRANGER) {
			memcpy(out + at, stranger, sizeof(stranger));
			at += sizeof(stranger);
		} else {
			out[at++] = 0xc0;
			out[at++] = 12;
		}
		memcpy(out + at, fixed, sizeof(fixed));
		memcpy(out + at + sizeof(fixed), a->addrs[i].octets, len);
		at += sizeof(fixed) + len;
	}
	return at;
}

static void on_query(void *arg, struct dns_net *net, int fd, bool over_tcp, const struct endpoint *server, const uint8_t *query, size_t len)
{
	struct proxy_fake *p = arg;
	struct proxy_fake_answer *a;
	char name[512];
	uint8_t out[1024];
	uint16_t type;

	must(len < 512 && !over_tcp);
	read_question(query, len, name, &type);
	if (p->on_query != NULL)
		p->on_query(p->arg, name, type);
	a = find_answer(p, name, type);
	if (a == NULL || a->act == PROXY_FAKE_SILENT)
		return;
	if (a->act == PROXY_FAKE_CLOSED)
		dns_net_end(net, fd, ECONNREFUSED, a->after_ms);
	else
		dns_net_arrive(net, fd, server, out, put_answer(a, query, out), a->after_ms);
}

/* The link is made before its network is: these look for it when they are called. */
static int dns_open(void *arg, int domain, int type, int protocol)
{
	struct ares_link_sockets s = dns_net_sockets(((struct proxy_fake *)arg)->net);

	return s.open(s.arg, domain, type, protocol);
}

static int dns_close(void *arg, int fd)
{
	struct ares_link_sockets s = dns_net_sockets(((struct proxy_fake *)arg)->net);

	return s.close(s.arg, fd);
}

static int dns_connect(void *arg, int fd, const struct sockaddr *to, socklen_t len)
{
	struct ares_link_sockets s = dns_net_sockets(((struct proxy_fake *)arg)->net);

	return s.connect(s.arg, fd, to, len);
}

static ssize_t dns_recv(void *arg, int fd, void *bytes, size_t len, int flags, struct sockaddr *from, socklen_t *from_len)
{
	struct ares_link_sockets s = dns_net_sockets(((struct proxy_fake *)arg)->net);

	return s.recv(s.arg, fd, bytes, len, flags, from, from_len);
}

static ssize_t dns_send(void *arg, int fd, const struct iovec *parts, int count)
{
	struct ares_link_sockets s = dns_net_sockets(((struct proxy_fake *)arg)->net);

	return s.send(s.arg, fd, parts, count);
}

/* --- the loop's script and origins --- */

static unsigned on_ready_asked(void *arg, int fd, unsigned what)
{
	struct proxy_fake *p = arg;

	return dns_net_owns(fd) ? dns_net_ready(p->net, fd, what) : socket_fake_ready(fd, what);
}

static uint64_t on_next_asked(void *arg)
{
	struct proxy_fake *p = arg;
	uint64_t dns_ms = dns_net_next_ms(p->net), origins_ms = socket_fake_next_ms();

	return dns_ms < origins_ms ? dns_ms : origins_ms;
}

static void on_dial(void *arg, const struct endpoint *to, int *out_error, uint64_t *out_after_ms)
{
	struct proxy_fake *p = arg;

	*out_error = ECONNREFUSED;
	if (p->on_dial != NULL)
		p->on_dial(p->arg, to);
	for (size_t i = 0; i < p->origin_count; i++) {
		if (!endpoint_equal(&p->origins[i].at, to))
			continue;
		*out_error = p->origins[i].error;
		*out_after_ms = p->origins[i].after_ms;
	}
}

/* --- policies --- */

struct held {
	struct segment *segments[SEGMENTS_MAX];
	size_t count;
};

static struct segment *find_held(void *arg, const uint8_t id[LAYOUT_ID_LEN])
{
	struct held *h = arg;

	for (size_t i = 0; i < h->count; i++) {
		if (memcmp(segment_id(h->segments[i]), id, LAYOUT_ID_LEN) == 0)
			return h->segments[i];
	}
	return NULL;
}

static void hold(struct held *h, const struct emitted *e)
{
	const char *fault;

	must(h->count < SEGMENTS_MAX);
	must(segment_open_bytes(e->bytes, e->len, &h->segments[h->count++], &fault) == ERR_OK);
}

uint32_t proxy_fake_slot(struct proxy_fake *p, const char *lease)
{
	uint32_t i = 0;

	while (p->slots[i][0] != '\0' && strcmp(p->slots[i], lease) != 0)
		must(++i < ARRAY_LEN(p->slots));
	if (p->slots[i][0] == '\0') {
		strncpy(p->slots[i], lease, RECORD_LEASE_MAX);
		gate_set_slot(p->shared.gate, i, GATE_SLOT_OPEN);
	}
	return i;
}

static uint32_t slot_of(void *arg, struct text id)
{
	char name[RECORD_LEASE_MAX + 1] = "";

	memcpy(name, id.at, id.len < RECORD_LEASE_MAX ? id.len : RECORD_LEASE_MAX);
	return proxy_fake_slot(arg, name);
}

static struct lease_table *make_table(struct proxy_fake *p, const struct emitted *ceiling, struct compiled *leases, size_t count)
{
	struct emit_root_lease named[SEGMENTS_MAX];
	/* As the daemon does it: what is the same is shared, and workers look at the difference. */
	struct lease_table *before = p->worker == NULL ? NULL : p->worker->world->table, *table = NULL;
	struct snapshot *snapshot;
	struct segment *root = NULL;
	struct held held = { .count = 0 };
	struct layout_id ceiling_id;
	struct emitted emitted;
	const char *fault;

	hold(&held, ceiling);
	memcpy(ceiling_id.bytes, ceiling->id, sizeof(ceiling_id.bytes));
	for (size_t i = 0; i < count; i++) {
		hold(&held, &leases[i].lease);
		named[i].id = leases[i].id;
		memcpy(named[i].segment.bytes, leases[i].lease.id, LAYOUT_ID_LEN);
	}
	must(emit_root(p->world_count, 0, &ceiling_id, 0, named, count, &emitted) == ERR_OK);
	must(segment_open_bytes(emitted.bytes, emitted.len, &root, &fault) == ERR_OK);
	must(snapshot_follow(before == NULL ? NULL : lease_table_snapshot(before), root, find_held, &held, &snapshot, &fault) == ERR_OK);
	must(lease_table_follow(before, snapshot, slot_of, p, &table) == ERR_OK);
	snapshot_unref(snapshot);
	segment_unref(root);
	emitted_finish(&emitted);
	for (size_t i = 0; i < held.count; i++)
		segment_unref(held.segments[i]);
	return table;
}

struct world *proxy_fake_world(struct proxy_fake *p, const char *ceiling, const char *const *leases, size_t count)
{
	struct compile_context context = { .ceiling = text_of(ceiling) };
	struct compiled compiled[SEGMENTS_MAX] = { 0 };
	struct world_parts parts = { .options = &p->options };
	struct fault_list faults;
	struct emitted emitted;
	struct world *world = NULL;
	struct arena arena;

	arena_init(&arena, 0);
	fault_list_init(&faults, &arena);
	must(count < SEGMENTS_MAX);
	p->world_count++;
	if (compile_ceiling_text("ceiling", text_of(ceiling), &context, &faults, &emitted) == ERR_OK) {
		for (size_t i = 0; i < count; i++)
			must(compile_lease_text("lease", text_of(leases[i]), &context, &faults, &compiled[i]) == ERR_OK);
		parts.table = make_table(p, &emitted, compiled, count);
		world = world_create(p->world_count, &parts);
		must(world != NULL);
		lease_table_unref(parts.table);
		emitted_finish(&emitted);
		for (size_t i = 0; i < count; i++)
			compiled_finish(&compiled[i]);
	}
	arena_finish(&arena);
	return world;
}

void proxy_fake_adopt(struct proxy_fake *p, struct world *world)
{
	must(worker_adopt(p->worker, world, NULL) == ERR_OK);
	must(p->door == NULL || worker_adopt(p->door, world, NULL) == ERR_OK);
	world_unref(world);
}

/* --- the whole --- */

static void take_record(void *arg, const struct record *record)
{
	struct proxy_fake *p = arg;

	if (p->on_record != NULL)
		p->on_record(p->arg, record);
}

static const struct world_options default_options = {
	.handshake_ms = 10000,
	.first_flight_ms = 10000,
	.connect_ms = 10000,
	.half_closed_ms = 120000,
	.idle_ms = 300000,
	.lifetime_ms = 86400000,
	.hold_bytes_max = 1 << 20,
	.connections_max = 1000,
	.servers = { { .addr = { .family = ADDR_V4, .octets = { 10, 0, 0, 53 } }, .port = 53 } },
	.server_count = 1,
};

void proxy_fake_begin(struct proxy_fake *p)
{
	struct worker_options options = { .channels = p->channels != 0 ? p->channels : 32, .dns_sockets = &p->sockets };
	struct world_parts parts = { .options = &p->options };
	struct world *empty;

	p->options = default_options;
	p->sockets = (struct ares_link_sockets){ dns_open, dns_close, dns_connect, dns_recv, dns_send, p };
	p->shared = (struct worker_shared){ .count = 1, .on_record = take_record, .record_arg = p };
	must(gate_create(ARRAY_LEN(p->slots), &p->shared.gate) == ERR_OK);
	p->shared.limits = limits_create();
	empty = world_create(0, &parts);
	must(p->shared.limits != NULL && empty != NULL);
	must(worker_create(&p->shared, &options, empty, &p->worker) == ERR_OK);
	world_unref(empty);
	p->shared.worker[0] = p->worker;
	loop_fake_drive_clock(p->worker->loop);
	p->net = dns_net_create(p->worker->loop, on_query, p);
	must(p->net != NULL);
	loop_fake_script(p->worker->loop, on_ready_asked, on_next_asked, p);
	socket_fake_begin(p->worker->loop, on_dial, p);
	gate_set_deadlines(p->shared.gate, GATE_FOREVER_NS, GATE_FOREVER_NS);
	gate_set_control(p->shared.gate, GATE_LIVE);
}

static void close_door(struct proxy_fake *p)
{
	if (p->door == NULL)
		return;
	must(worker_drain(p->door, NULL) == ERR_OK);
	must(loop_fake_advance(p->door->loop, SESSION_ENDING_MS + 200, TURNS_MAX));
	must(worker_session_count(p->door) == 0);
	worker_destroy(p->door);
	p->door = NULL;
}

void proxy_fake_end(struct proxy_fake *p)
{
	struct loop *loop = p->worker->loop;

	close_door(p);
	must(worker_drain(p->worker, NULL) == ERR_OK);
	for (uint32_t slot = 0; slot < ARRAY_LEN(p->slots); slot++)
		must(worker_revoke(p->worker, slot, REASON_DRAINING, NULL) == ERR_OK);
	proxy_fake_advance(p, SESSION_ENDING_MS + 200);
	must(worker_session_count(p->worker) == 0);
	must(resolver_question_count(p->worker->resolver) == 0 && ares_link_busy_count(p->worker->ares) == 0);
	must(dns_net_open_count(p->net) == 0);
	must(loop_fake_watch_count(loop) == 0 && loop_fake_timer_count(loop) == 1); /* the tick */
	must(p->worker->hold_bytes == 0);
	must(socket_fake_end() == 0);
	/* The loop goes with the worker, and its script before it. */
	dns_net_destroy(p->net);
	worker_destroy(p->worker);
	limits_destroy(p->shared.limits);
	gate_destroy(p->shared.gate);
}

static int arrive(struct worker *at, uint16_t port)
{
	struct endpoint source = { .addr = addr_v4((const uint8_t[4]){ 198, 51, 100, 1 }), .port = port };
	int ends[2];

	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	session_accept(at, ends[0], "main", &source);
	return ends[1];
}

int proxy_fake_guest(struct proxy_fake *p, uint16_t port)
{
	return arrive(p->worker, port);
}

int proxy_fake_knock(struct proxy_fake *p, uint16_t port)
{
	struct worker_options options = { .index = 1, .channels = 1, .dns_sockets = &p->sockets };

	if (p->door == NULL) {
		must(worker_create(&p->shared, &options, p->worker->world, &p->door) == ERR_OK);
		loop_fake_script(p->door->loop, on_ready_asked, NULL, p);
	}
	return arrive(p->door, port);
}

void proxy_fake_let_knock(struct proxy_fake *p)
{
	must(loop_fake_settle(p->door->loop, TURNS_MAX));
}

void proxy_fake_advance(struct proxy_fake *p, uint64_t ms)
{
	/* The gate's deadlines are cut to a few minutes: a live control plane renews them. */
	while (ms > 0) {
		uint64_t step = ms < 10000 ? ms : 10000;

		if (!p->control_is_silent)
			gate_set_deadlines(p->shared.gate, GATE_FOREVER_NS, GATE_FOREVER_NS);
		must(loop_fake_advance(p->worker->loop, step, TURNS_MAX));
		ms -= step;
	}
	must(loop_fake_settle(p->worker->loop, TURNS_MAX));
}

uint64_t proxy_fake_now_ms(const struct proxy_fake *p)
{
	return loop_now_ms(p->worker->loop) - PROXY_FAKE_START_MS;
}
